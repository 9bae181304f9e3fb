#include "session/files_put.h"

#include <errno.h>

int files_put_send(struct files_put *p, struct cay_error *err)
{
	struct agent_file file;
	const char *data;
	int r;

	for (; p->next < p->count; p->next++) {
		p->nth(p->ctx, p->next, &file, &data);
		r = p->named ? 0 : agent_call_entry(p->call, &file);
		if (r == -EAGAIN)
			return 0;
		if (r < 0)
			return cay_fail(err, CAY_E_INVALID, -r, "put /%.256s", file.path);
		p->named = true;
		p->done += agent_call_send(p->call, data + p->done, (size_t)file.size - p->done);
		if (p->done < file.size)
			return 0;
		p->named = false;
		p->done = 0;
	}
	agent_call_end(p->call);
	return 0;
}

struct agent_file files_put_entry(const struct request_file *f)
{
	return (struct agent_file){
		.type = AGENT_FILE,
		.mode = f->executable ? 0755 : 0644,
		.path = f->path + 1, /* below "/" */
		.target = "",
		.size = f->size,
	};
}
