/*
 * What a launcher hears from an island: a good message, edited. The first byte
 * says which, the second how much is cut off or added, and whether fds ride along.
 */
#include "fuzz.h"

#include "base/buf.h"
#include "base/fd.h"
#include "base/json.h"
#include "engine/native/confine.h"
#include "engine/native/island.h"
#include "engine/native/launcher.h"

#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#define OWN_NAMESPACE 4026531840u

static const struct plan plan = {.limits = {.disk_bytes = 1 << 20, .open_files = 64, .pids = 5}};

static void make_facts(struct facts *f)
{
	*f = (struct facts){.uid = ISLAND_UID,
			    .gid = ISLAND_GID,
			    .in_cgroups = 1,
			    .no_new_privs = 1,
			    .seccomp_mode = 2,
			    .root_read_only = 1,
			    .scratch_bytes = 1 << 20,
			    .open_files = 64};
	for (size_t i = 0; i < NAMESPACES; i++)
		f->namespaces[i] = OWN_NAMESPACE + 100 + i;
}

static void make(struct message *m, unsigned kind)
{
	memset(m, 0, sizeof(*m));
	m->kind = kind;
	if (kind == MESSAGE_READY)
		make_facts(&m->facts);
	else if (kind == MESSAGE_FAILED)
		(void)cay_fail(&m->error, CAY_E_ENGINE, 1, "it is broken");
}

static void check_facts(const struct facts *f)
{
	uint64_t host[NAMESPACES];
	struct cay_error err = {0};

	for (size_t i = 0; i < NAMESPACES; i++)
		host[i] = OWN_NAMESPACE + i;
	if (facts_check(f, &plan, host, &err) < 0) {
		CHECK(err.code == CAY_E_NOT_ENFORCEABLE && err.text[0]);
		return;
	}
	CHECK(f->uid == ISLAND_UID && f->gid == ISLAND_GID);
	CHECK(f->caps_effective == 0 && f->caps_permitted == 0 && f->caps_inheritable == 0 &&
	      f->caps_bounding == 0 && f->caps_ambient == 0);
	CHECK(f->in_cgroups && f->no_new_privs == 1 && f->seccomp_mode == 2 && f->root_read_only);
	CHECK(f->init_dumpable == 0 && f->open_files <= plan.limits.open_files);
	CHECK(f->scratch_bytes <= plan.limits.disk_bytes + 65536);
	for (size_t i = 0; i < NAMESPACES; i++)
		CHECK(f->namespaces[i] && f->namespaces[i] != host[i]);
}

static void check_error(const struct cay_error *err)
{
	struct json *j = cay_error_json(err, NULL);
	struct buf text = BUF(16384);

	CHECK(strlen(err->text) < sizeof(err->text) && strlen(err->hint) < sizeof(err->hint));
	CHECK(err->code > CAY_OK && cay_code_name(err->code) && cay_code_http(err->code) >= 400);
	CHECK(err->exit_code >= 125 && err->exit_code <= 127);
	CHECK(json_text(j, &text) == 0);
	json_free(j);
	buf_done(&text);
}

static void hear(int control, bool whole, size_t n_fds, bool want_fd)
{
	struct message got;
	int fd = -2;
	bool heard = launcher_listen(control, &got, want_fd ? &fd : NULL);

	CHECK(heard == (whole && n_fds <= 1));
	CHECK(!want_fd || (fd >= 0) == (n_fds == 1 && (whole || fd >= 0)));
	if (want_fd && fd >= 0)
		(void)close(fd);
	if (heard && got.kind == MESSAGE_READY)
		check_facts(&got.facts);
	else if (heard && got.kind == MESSAGE_FAILED)
		check_error(&got.error);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input in = INPUT(data, size);
	struct message m[2];
	unsigned kind = input_u8(&in) % (MESSAGE_EXITED + 2), form = input_u8(&in);
	size_t len = sizeof(m[0]), n_fds = form & 3;
	int pair[2], before, after, fds[3];

	memset(m, 0, sizeof(m));
	make(&m[0], kind);
	while (in.len >= 3) {
		size_t at = input_u16(&in) % sizeof(m[0]);

		((uint8_t *)m)[at] = input_u8(&in);
	}
	if (form & 8)
		len = form & 16 ? len + (form >> 5) : len - (form >> 5);
	before = dup(0);
	CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, pair) == 0);
	for (int i = 0; i < 3; i++)
		fds[i] = pair[1];
	CHECK(msg_send(pair[1], m, len, fds, n_fds) == 0);
	hear(pair[0], len == sizeof(m[0]), n_fds, form & 4);
	(void)close(pair[0]);
	(void)close(pair[1]);
	/* The lowest free number is what it was: nothing was left open. */
	(void)close(before);
	after = dup(0);
	CHECK(after == before);
	(void)close(after);
	return 0;
}
