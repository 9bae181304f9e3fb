#include "engine/native/service_rules.h"

#include "base/attr.h"
#include "base/buf.h"
#include "base/fd.h"

#include <errno.h>
#include <string.h>

#define PACKED_MAX (4u << 20)

struct packed {
	struct bare_rules bare;
	struct limits maximum;
	bool may_degrade;
	size_t n[4]; /* of the lists; what they have follows, each with a NUL */
};

static void lists_of(struct mount_rules *m, struct strv *ret[4])
{
	ret[0] = &m->read;
	ret[1] = &m->write;
	ret[2] = &m->forbid;
	ret[3] = &m->operators;
}

void service_rules_done(struct service_rules *r)
{
	mount_rules_done(&r->mounts);
	*r = (struct service_rules){0};
}

int service_rules_pack(const struct service_rules *r)
{
	_cleanup_(buf_done) struct buf all = BUF(PACKED_MAX);
	struct mount_rules mounts = r->mounts; /* only looked at */
	struct packed head;
	struct strv *lists[4];
	int failed;

	memset(&head, 0, sizeof(head));
	head.bare = r->bare;
	head.maximum = r->maximum;
	head.may_degrade = r->may_degrade;
	lists_of(&mounts, lists);
	for (size_t k = 0; k < 4; k++)
		head.n[k] = lists[k]->len;
	failed = buf_append(&all, &head, sizeof(head));
	for (size_t k = 0; k < 4; k++)
		for (size_t i = 0; i < lists[k]->len && failed == 0; i++)
			failed = buf_append(&all, lists[k]->items[i],
					    strlen(lists[k]->items[i]) + 1);
	return failed < 0 ? failed : fd_sealed("rules", all.data, all.len);
}

/* One list from *at on, which moves. */
static int read_list(struct strv *ret, size_t n, const char **at, const char *end)
{
	int r = 0;

	for (size_t i = 0; i < n && r == 0; i++) {
		const char *stop = memchr(*at, '\0', (size_t)(end - *at));

		if (!stop)
			return -EINVAL;
		r = strv_add(ret, *at);
		*at = stop + 1;
	}
	return r;
}

int service_rules_unpack(int fd, struct service_rules *ret)
{
	_cleanup_(buf_done) struct buf all = BUF(PACKED_MAX);
	struct service_rules rules = {0};
	struct packed head;
	struct strv *lists[4];
	const char *at, *end;
	int r = fd_read_all(fd, &all);

	if (r < 0)
		return r;
	if (all.len < sizeof(head))
		return -EINVAL;
	memcpy(&head, all.data, sizeof(head));
	rules.bare = head.bare;
	rules.maximum = head.maximum;
	rules.may_degrade = head.may_degrade;
	lists_of(&rules.mounts, lists);
	at = all.data + sizeof(head);
	end = all.data + all.len;
	for (size_t k = 0; k < 4 && r == 0; k++)
		r = read_list(lists[k], head.n[k], &at, end);
	if (r < 0)
		service_rules_done(&rules);
	else
		*ret = rules;
	return r;
}
