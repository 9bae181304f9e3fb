#include "session/sandbox.h"

#include "image/choose.h"
#include "image/naming.h"
#include "policy/scope.h"
#include "session/sandbox_impl.h"

#include <string.h>

struct sandbox *sandbox_of_scope(struct sandboxes *all, const struct owner *owner,
				 const char *scope)
{
	struct sandbox *s = all->list;

	while (s && (!sandbox_is_alive(s->state) || !s->body->scope ||
		     !owner_is(&s->owner, owner) || strcmp(s->body->scope, scope) != 0))
		s = s->next;
	return s;
}

static int check_image(const struct sandbox *s, const struct settings *settings,
		       const struct request_body *q, struct cay_error *err)
{
	char name[IMAGE_REF_SIZE];

	if (!q->spec.image)
		return 0;
	if (image_name_resolve(settings, q->spec.image, name, err) < 0)
		return -1;
	if (s->body->spec.image && strcmp(name, s->body->spec.image) == 0)
		return 0;
	(void)cay_fail(err, CAY_E_CONFLICT, 0, "image: the scope's sandbox is made of %.128s",
		       s->body->spec.image ? s->body->spec.image : IMAGE_HOST);
	return cay_hint(err, "it is made by the first request: leave it out, or end the scope "
			     "first");
}

int sandbox_check_scope(const struct sandbox *s, const struct owner *who,
			const struct settings *settings, const struct request_body *q,
			struct cay_error *err)
{
	const struct spec *is = &s->body->spec;

	if (scope_check(q, is, err) < 0 || check_image(s, settings, q, err) < 0)
		return -1;
	if (owner_is(&s->owner, who))
		return 0;
	/* One for everybody was made without a thought of this one's bounds. */
	if (scope_may_use(settings, is, err) < 0)
		return -1;
	return is->image ? image_may_use(settings, is->image, s->image, err) : 0;
}

void sandbox_hold(struct sandbox *s)
{
	s->busy++;
}

void sandbox_release(struct sandbox *s)
{
	s->busy--;
	sandbox_touch(s);
	sandbox_look_for_end(s);
}
