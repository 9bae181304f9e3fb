/* What a live sandbox is made of, and which interpreter it is borne by. */
#include "base/attr.h"
#include "image/choose.h"
#include "image/choose_container.h"
#include "image/images.h"
#include "policy/warm.h"
#include "session/sandbox_impl.h"
#include "settings/settings.h"
#include "spec/language.h"

int sandbox_choose_live(const struct settings *settings, const struct request_body *body,
			const struct image *image, struct runtime *room, const struct runtime **ret,
			struct cay_error *err)
{
	const struct language *named = body->spec.language;
	const struct spec any = {.language = named ? named : language_find(LANGUAGE_DEFAULT),
				 .version = body->spec.version};
	uint64_t memory = body->spec.limits.memory_bytes ? body->spec.limits.memory_bytes
							 : settings->limits.memory_bytes;

	*ret = NULL;
	if (image_choose_runtime(settings, &any, image, body->spec.image, room, err) < 0)
		return named ? -1 : 0;
	if (memory >= WARM_LIVE_MEMORY && warm_can(room) && !room->language->warm.set)
		*ret = room;
	return 0;
}

int sandbox_choose_image(const struct settings *settings, struct spec *spec, struct image **ret,
			 struct cay_error *err)
{
	_cleanup_(image_choice_done) struct image_choice choice = {0};

	if (spec_engine_is_container(spec->engine)) {
		struct runtime unused;

		return container_choose(settings, spec, choice.name, &unused, err) < 0
			       ? -1
			       : spec_set_image(spec, choice.name, err);
	}
	if (image_choose_named(settings, spec, &choice, err) < 0 ||
	    spec_set_image(spec, choice.name, err) < 0)
		return -1;
	image_free(*ret);
	*ret = take_ptr(&choice.image);
	return 0;
}
