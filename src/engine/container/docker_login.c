#include "engine/container/docker_login.h"

#include "base/attr.h"
#include "base/json.h"
#include "base/text.h"
#include "image/docker_config.h"
#include "image/ref.h"

#include <errno.h>
#include <string.h>

#define TEXT_MAX ((size_t)32 << 10)

static int encode(const struct login *l, const char *registry, struct buf *out)
{
	_cleanup_(json_freep) struct json *j = json_new_object();
	_cleanup_(buf_done) struct buf text = BUF(TEXT_MAX);
	size_t begin = out->len;
	int r;

	json_set_str(j, "serveraddress", registry);
	if (l->identity[0])
		json_set_str(j, "identitytoken", l->identity);
	if (l->user[0])
		json_set_str(j, "username", l->user);
	if (l->user[0])
		json_set_str(j, "password", l->password);
	r = json_text(j, &text);
	if (r == 0)
		r = text_append_base64(out, text.data, text.len);
	if (text.len > 0)
		explicit_bzero(text.data, text.len);
	/* The alphabet of URLs, as headers have it there. */
	for (size_t i = begin; r == 0 && i < out->len; i++)
		out->data[i] = (char)(out->data[i] == '+'   ? '-'
				      : out->data[i] == '/' ? '_'
							    : out->data[i]);
	return r;
}

int docker_login(const char *name, struct buf *out, struct cay_error *err)
{
	struct image_ref ref;
	struct login login;
	int r;

	if (image_ref_parse(name, &ref, err) < 0 ||
	    docker_config_find(ref.registry, ref.repository, &login, err) < 0)
		return -1;
	r = login_is(&login) ? encode(&login, ref.registry, out) : 0;
	explicit_bzero(&login, sizeof(login));
	return r < 0 ? cay_fail(err, CAY_E_INTERNAL, -r, "tell the engine of a login") : 0;
}
