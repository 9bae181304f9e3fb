/* Which interpreter a live sandbox is borne by. */
#include "image/choose.h"
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
