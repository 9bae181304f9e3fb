/*
 * seccomp-gen.c: makes the filter of seccomp-table.h, as bytes. Runs at build
 * time: seccomp-gen x86_64|aarch64 OUTPUT
 *
 * Theory of operation. A filter is a program that only jumps forward:
 *
 *	check the architecture, load the number
 *	search tree over the ranges of numbers with one verdict each
 *	one block per argument rule
 *	one return per answer
 *
 * What loading it costs is counted in two coins. The kernel translates and
 * compiles each instruction; and it walks the filter once for each number it has,
 * to find those that are allowed whatever their arguments. Those never enter the
 * filter again, so at run time only the calls with argument rules pay. plan_tree()
 * finds the tree that is cheapest in these coins.
 *
 * An x32 number has bit 30 set: it lies past the last range and needs no check.
 */
#include "base/attr.h"
#include "engine/native/seccomp-table.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/netlink.h>
#include <linux/prctl.h>
#include <linux/seccomp.h>
#include <netinet/in.h>
#include <sched.h>
#include <seccomp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/personality.h>
#include <sys/resource.h>
#include <sys/shm.h>
#include <sys/socket.h>
#include <sys/stat.h>

#define NR_MAX     512 /* numbers the kernel may have; the tree covers all others as well */
#define INSNS_MAX  256 /* so that every distance fits the 8 bits of a conditional jump */
#define LABELS_MAX 512

#define COST_INSN 32 /* one instruction more, in steps of the kernel's walk */
#define HOT       8  /* how much more a number counts if each call of it runs the filter */

/* A label names a place to jump to; each verdict is one. */
enum label {
	NEXT = -1,
	L_KILL = VERDICTS,
	L_BAD_FAMILY,
	L_BAD_PROTOCOL,
	L_NO_MEMORY,
	L_INVALID,
	L_NOTHING,
	L_SOCKET_INET,
	L_SOCKET_INET_PROTOCOL,
	L_SOCKET_NETLINK,
	L_MKNOD_TYPE,
	LABELS_NAMED
};

struct insn {
	uint16_t code;
	uint32_t k;
	int yes;
	int no;
};

struct program {
	struct insn insns[INSNS_MAX];
	size_t len;
	size_t labels[LABELS_MAX]; /* where it is, plus one; 0: not placed yet */
	int n_labels;
};

struct range {
	uint32_t first;
	uint32_t last;
	enum verdict verdict;
	uint32_t weight;
};

/* The cheapest tree for each run of ranges from i to j. */
struct tree {
	struct range ranges[NR_MAX + 1];
	size_t len;
	uint32_t cost[NR_MAX + 1][NR_MAX + 1];
	size_t split[NR_MAX + 1][NR_MAX + 1]; /* first range of the right half; 0: a chain */
};

struct target {
	const char *name;
	uint32_t scmp_arch;
	uint32_t audit_arch;
};

static const struct target targets[] = {
	{"x86_64", SCMP_ARCH_X86_64, AUDIT_ARCH_X86_64},
	{"aarch64", SCMP_ARCH_AARCH64, AUDIT_ARCH_AARCH64},
};

static _noreturn_ _printf_(1, 2) void die(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	fputs("seccomp-gen: ", stderr);
	vfprintf(stderr, fmt, ap);
	fputc('\n', stderr);
	va_end(ap);
	exit(1);
}

/*
 * From names to ranges
 */

static const struct newer_call *find_newer(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(newer_calls); i++)
		if (strcmp(newer_calls[i].name, name) == 0)
			return &newer_calls[i];
	return NULL;
}

/* The number, or -1 if this architecture has no such call. */
static int resolve(const struct target *target, const char *name)
{
	const struct newer_call *newer = find_newer(name);
	int nr = seccomp_syscall_resolve_name_arch(target->scmp_arch, name);

	if (newer && nr != __NR_SCMP_ERROR && nr != (int)newer->nr)
		die("'%s' is %d for libseccomp, %u in the table", name, nr, newer->nr);
	if (newer)
		nr = (int)newer->nr;
	else if (nr == __NR_SCMP_ERROR)
		die("'%s' is no system call", name);
	if (nr >= NR_MAX)
		die("'%s' has the number %d: raise NR_MAX", name, nr);
	return nr < 0 ? -1 : nr;
}

struct listed {
	char names[NR_MAX * 2][32];
	size_t len;
	bool taken[NR_MAX];
	enum verdict verdicts[NR_MAX];
};

static void list_call(struct listed *list, const struct target *target, const char *name,
		      enum verdict verdict)
{
	int nr = resolve(target, name);

	for (size_t i = 0; i < list->len; i++)
		if (strcmp(list->names[i], name) == 0)
			die("'%s' is listed twice", name);
	if (list->len == ARRAY_LEN(list->names))
		die("too many calls");
	snprintf(list->names[list->len++], sizeof(list->names[0]), "%s", name);

	if (nr < 0)
		return;
	if (list->taken[nr])
		die("'%s' is listed under another name, too", name);
	list->taken[nr] = true;
	list->verdicts[nr] = verdict;
}

static void list_group(struct listed *list, const struct target *target,
		       const struct call_group *group)
{
	const char *s = group->names;

	while (*(s += strspn(s, " "))) {
		size_t len = strcspn(s, " ");
		char name[32];

		if (len >= sizeof(name))
			die("name too long: '%s'", s);
		memcpy(name, s, len);
		name[len] = '\0';
		list_call(list, target, name, group->verdict);
		s += len;
	}
}

static bool is_rule(enum verdict verdict)
{
	return verdict > DENY;
}

static void merge_ranges(struct tree *tree, const struct listed *list)
{
	for (uint32_t nr = 0; nr <= NR_MAX; nr++) {
		enum verdict verdict = nr < NR_MAX ? list->verdicts[nr] : ABSENT;
		struct range *last = tree->len > 0 ? &tree->ranges[tree->len - 1] : NULL;

		if (!last || last->verdict != verdict) {
			last = &tree->ranges[tree->len++];
			*last = (struct range){.first = nr, .verdict = verdict};
		}
		last->last = nr;
		last->weight += is_rule(verdict) ? HOT : 1;
	}
	tree->ranges[tree->len - 1].last = UINT32_MAX;
}

/*
 * The tree
 */

/*
 * A chain tests single numbers with jeq, and gives all others of the run the same
 * verdict: that of the widest range.
 */
static enum verdict chain_rest(const struct tree *tree, size_t i, size_t j)
{
	const struct range *widest = &tree->ranges[i];

	for (size_t r = i; r <= j; r++)
		if (tree->ranges[r].last - tree->ranges[r].first > widest->last - widest->first)
			widest = &tree->ranges[r];
	return widest->verdict;
}

static uint32_t chain_cost(const struct tree *tree, size_t i, size_t j)
{
	enum verdict rest = chain_rest(tree, i, j);
	uint32_t rest_weight = 0;
	uint32_t tests = 0;
	uint32_t steps = 0;

	for (size_t r = i; r <= j; r++) {
		const struct range *range = &tree->ranges[r];

		if (range->verdict == rest) {
			rest_weight += range->weight;
			continue;
		}
		if (range->first != range->last)
			return UINT32_MAX;
		steps += ++tests * range->weight;
	}
	return tests * COST_INSN + steps + tests * rest_weight;
}

static void plan_run(struct tree *tree, size_t i, size_t j)
{
	uint32_t weight = 0;

	for (size_t r = i; r <= j; r++)
		weight += tree->ranges[r].weight;

	tree->cost[i][j] = chain_cost(tree, i, j);
	tree->split[i][j] = 0;
	for (size_t right = i + 1; right <= j; right++) {
		uint32_t cost =
			COST_INSN + weight + tree->cost[i][right - 1] + tree->cost[right][j];

		if (cost < tree->cost[i][j]) {
			tree->cost[i][j] = cost;
			tree->split[i][j] = right;
		}
	}
}

/* The optimal search tree, from short runs to long ones; a run of one range costs nothing. */
static void plan_tree(struct tree *tree)
{
	for (size_t more = 1; more < tree->len; more++)
		for (size_t i = 0; i + more < tree->len; i++)
			plan_run(tree, i, i + more);
}

/*
 * The assembler
 */

static void emit(struct program *p, int code, uint32_t k, int yes, int no)
{
	if (p->len == INSNS_MAX)
		die("more than %d instructions: jumps need trampolines now", INSNS_MAX);
	p->insns[p->len++] = (struct insn){.code = (uint16_t)code, .k = k, .yes = yes, .no = no};
}

static void load(struct program *p, size_t offset)
{
	emit(p, BPF_LD | BPF_W | BPF_ABS, (uint32_t)offset, NEXT, NEXT);
}

/*
 * The low half of an argument (both targets are little endian). That is all that
 * counts: the kernel takes each argument checked here as an int, an unsigned int
 * or a mode, or looks at no more than its low bits (clone).
 */
static void load_arg(struct program *p, size_t arg)
{
	load(p, offsetof(struct seccomp_data, args) + arg * sizeof(uint64_t));
}

static void jump_if(struct program *p, int test, uint32_t k, int yes, int no)
{
	emit(p, BPF_JMP | test | BPF_K, k, yes, no);
}

static void mask(struct program *p, uint32_t k)
{
	emit(p, BPF_ALU | BPF_AND | BPF_K, k, NEXT, NEXT);
}

static void place(struct program *p, int label)
{
	p->labels[label] = p->len + 1;
}

static void answer(struct program *p, int label, uint32_t value)
{
	place(p, label);
	emit(p, BPF_RET | BPF_K, value, NEXT, NEXT);
}

static uint8_t distance(const struct program *p, size_t from, int label)
{
	size_t to = label == NEXT ? from + 1 : p->labels[label] - 1;

	if (label != NEXT && p->labels[label] == 0)
		die("label %d is nowhere", label);
	if (to <= from || to - from - 1 > UINT8_MAX)
		die("jump from %zu to %zu", from, to);
	return (uint8_t)(to - from - 1);
}

static void emit_chain(struct program *p, const struct tree *tree, size_t i, size_t j)
{
	enum verdict rest = chain_rest(tree, i, j);
	size_t left = 0;

	for (size_t r = i; r <= j; r++)
		left += tree->ranges[r].verdict != rest;
	for (size_t r = i; r <= j; r++) {
		const struct range *range = &tree->ranges[r];

		if (range->verdict != rest)
			jump_if(p, BPF_JEQ, range->first, (int)range->verdict,
				--left > 0 ? NEXT : (int)rest);
	}
}

static void emit_tree(struct program *p, const struct tree *tree, size_t i, size_t j)
{
	size_t right = tree->split[i][j];
	int yes = NEXT;

	if (right == 0) {
		emit_chain(p, tree, i, j);
		return;
	}

	bool left_leaf = right - 1 == i;
	bool right_leaf = right == j;

	if (right_leaf)
		yes = (int)tree->ranges[j].verdict;
	else if (!left_leaf)
		yes = p->n_labels++;
	if (p->n_labels > LABELS_MAX)
		die("too many labels");

	jump_if(p, BPF_JGE, tree->ranges[right].first, yes,
		left_leaf ? (int)tree->ranges[i].verdict : NEXT);
	if (!left_leaf)
		emit_tree(p, tree, i, right - 1);
	if (right_leaf)
		return;
	if (yes != NEXT)
		place(p, yes);
	emit_tree(p, tree, right, j);
}

/*
 * The argument rules
 */

/*
 * CLONE_NEWTIME is left out: for clone() its bit is part of the exit signal, and
 * only clone3 and unshare take it.
 */
static void rule_clone(struct program *p)
{
	place(p, CHECK_CLONE);
	load_arg(p, 0);
	jump_if(p, BPF_JSET,
		CLONE_NEWNS | CLONE_NEWCGROUP | CLONE_NEWUTS | CLONE_NEWIPC | CLONE_NEWUSER |
			CLONE_NEWPID | CLONE_NEWNET,
		DENY, ALLOW);
}

/*
 * Families and protocols are lists of what is known to be wanted, because asking
 * for another one makes the kernel load a module for it. Internet sockets are
 * streams and datagrams: SOCK_RAW is raw, SOCK_PACKET is AF_PACKET by another name.
 * Netlink is for getifaddrs.
 */
static void rule_socket(struct program *p)
{
	place(p, CHECK_SOCKET);
	load_arg(p, 0);
	jump_if(p, BPF_JEQ, AF_UNIX, ALLOW, NEXT);
	jump_if(p, BPF_JEQ, AF_INET, L_SOCKET_INET, NEXT);
	jump_if(p, BPF_JEQ, AF_INET6, L_SOCKET_INET, NEXT);
	jump_if(p, BPF_JEQ, AF_NETLINK, L_SOCKET_NETLINK, NEXT);
	jump_if(p, BPF_JEQ, AF_PACKET, DENY, NEXT);
	jump_if(p, BPF_JEQ, AF_ALG, DENY, NEXT);
	jump_if(p, BPF_JEQ, AF_VSOCK, DENY, L_BAD_FAMILY);

	place(p, L_SOCKET_INET);
	load_arg(p, 1);
	mask(p, 0xf); /* SOCK_TYPE_MASK: the rest is SOCK_CLOEXEC and SOCK_NONBLOCK */
	jump_if(p, BPF_JEQ, SOCK_STREAM, L_SOCKET_INET_PROTOCOL, NEXT);
	jump_if(p, BPF_JEQ, SOCK_DGRAM, L_SOCKET_INET_PROTOCOL, DENY);

	place(p, L_SOCKET_INET_PROTOCOL);
	load_arg(p, 2);
	jump_if(p, BPF_JEQ, 0, ALLOW, NEXT);
	jump_if(p, BPF_JEQ, IPPROTO_TCP, ALLOW, NEXT);
	jump_if(p, BPF_JEQ, IPPROTO_UDP, ALLOW, L_BAD_PROTOCOL);

	place(p, L_SOCKET_NETLINK);
	load_arg(p, 2);
	jump_if(p, BPF_JEQ, NETLINK_ROUTE, ALLOW, NEXT);
	/* As from a kernel without it: groupadd gives up on a refusal. */
	jump_if(p, BPF_JEQ, NETLINK_AUDIT, L_BAD_PROTOCOL, DENY);
}

/*
 * A filter of 4096 instructions on each of many sockets would fill the memory that
 * all filters of the machine are compiled into (bpf_jit_limit), which counts to
 * nobody's limit: then no other island could load its own system call filter.
 */
static void rule_setsockopt(struct program *p)
{
	place(p, CHECK_SETSOCKOPT);
	load_arg(p, 1);
	jump_if(p, BPF_JEQ, SOL_SOCKET, NEXT, ALLOW);
	load_arg(p, 2);
	jump_if(p, BPF_JEQ, SO_ATTACH_FILTER, DENY, NEXT);
	jump_if(p, BPF_JEQ, SO_ATTACH_BPF, DENY, NEXT);
	jump_if(p, BPF_JEQ, SO_ATTACH_REUSEPORT_CBPF, DENY, NEXT);
	jump_if(p, BPF_JEQ, SO_ATTACH_REUSEPORT_EBPF, DENY, ALLOW);
}

/* What types into a terminal for its owner, or changes what the terminal is. */
static void rule_ioctl(struct program *p)
{
	place(p, CHECK_IOCTL);
	load_arg(p, 1);
	jump_if(p, BPF_JEQ, TIOCSTI, DENY, NEXT);
	jump_if(p, BPF_JEQ, TIOCLINUX, DENY, NEXT);
	jump_if(p, BPF_JEQ, TIOCCONS, DENY, NEXT);
	jump_if(p, BPF_JEQ, TIOCSETD, DENY, ALLOW);
}

/* To ask (all ones), and the bits that do no harm; not READ_IMPLIES_EXEC and its like. */
static void rule_personality(struct program *p)
{
	place(p, CHECK_PERSONALITY);
	load_arg(p, 0);
	jump_if(p, BPF_JSET, ~(uint32_t)(PER_LINUX32 | UNAME26 | ADDR_NO_RANDOMIZE), NEXT, ALLOW);
	jump_if(p, BPF_JEQ, UINT32_MAX, ALLOW, DENY);
}

/*
 * What filters are compiled into is one pool of the machine's, as rule_setsockopt() says,
 * and a listener's fd keeps a chain of 32768 instructions alive without its process. The
 * answer is that of a kernel without filters, which programs know.
 */
static void rule_prctl(struct program *p)
{
	place(p, CHECK_PRCTL);
	load_arg(p, 0);
	jump_if(p, BPF_JEQ, PR_SET_SECCOMP, NEXT, ALLOW);
	load_arg(p, 1);
	jump_if(p, BPF_JEQ, SECCOMP_MODE_FILTER, L_INVALID, ALLOW);
}

static void rule_mode(struct program *p, enum verdict rule, size_t arg)
{
	place(p, (int)rule);
	load_arg(p, arg);
	jump_if(p, BPF_JSET, S_ISUID | S_ISGID, DENY, ALLOW);
}

/* Unless the file may be made the mode is not read, and may be any rubbish. */
static void rule_open(struct program *p)
{
	const uint32_t creates = O_CREAT | (O_TMPFILE & ~O_DIRECTORY);

	place(p, CHECK_OPEN);
	load_arg(p, 1);
	jump_if(p, BPF_JSET, creates, CHECK_MODE_AT, ALLOW);

	place(p, CHECK_OPENAT);
	load_arg(p, 2);
	jump_if(p, BPF_JSET, creates, NEXT, ALLOW);
	load_arg(p, 3);
	jump_if(p, BPF_JSET, S_ISUID | S_ISGID, DENY, ALLOW);
}

/* Device 0:0 is an overlay's whiteout, which the kernel lets anybody make. */
static void rule_mknod(struct program *p)
{
	place(p, CHECK_MKNOD);
	load_arg(p, 1);
	jump_if(p, BPF_JSET, S_ISUID | S_ISGID, DENY, L_MKNOD_TYPE);

	place(p, CHECK_MKNODAT);
	load_arg(p, 2);
	jump_if(p, BPF_JSET, S_ISUID | S_ISGID, DENY, NEXT);
	place(p, L_MKNOD_TYPE);
	mask(p, S_IFMT);
	jump_if(p, BPF_JEQ, 0, ALLOW, NEXT);
	jump_if(p, BPF_JEQ, S_IFREG, ALLOW, NEXT);
	jump_if(p, BPF_JEQ, S_IFIFO, ALLOW, NEXT);
	jump_if(p, BPF_JEQ, S_IFSOCK, ALLOW, DENY);
}

static void rule_fcntl(struct program *p)
{
	place(p, CHECK_FCNTL);
	load_arg(p, 1);
	jump_if(p, BPF_JEQ, F_SETLEASE, DENY, ALLOW);
}

static void rule_huge_pages(struct program *p)
{
	place(p, CHECK_MMAP);
	load_arg(p, 3);
	jump_if(p, BPF_JSET, MAP_HUGETLB, L_NO_MEMORY, ALLOW);
	place(p, CHECK_MEMFD);
	load_arg(p, 1);
	/* As from a kernel that does not know the flag. Chromium asks with all bits set, and aborts
	 * if it hears anything else. */
	jump_if(p, BPF_JSET, MFD_HUGETLB, L_INVALID, ALLOW);
	place(p, CHECK_SHMGET);
	load_arg(p, 2);
	jump_if(p, BPF_JSET, SHM_HUGETLB, L_NO_MEMORY, ALLOW);
}

/* Success without doing anything: programs that want no core get none. */
static void rule_rlimit(struct program *p)
{
	place(p, CHECK_RLIMIT);
	load_arg(p, 0);
	jump_if(p, BPF_JEQ, RLIMIT_CORE, L_NOTHING, ALLOW);
	place(p, CHECK_PRLIMIT);
	load_arg(p, 1);
	jump_if(p, BPF_JEQ, RLIMIT_CORE, NEXT, ALLOW);
	/* A question is no change: the pointer to the new limit, both halves of it, is NULL. */
	load_arg(p, 2);
	jump_if(p, BPF_JEQ, 0, NEXT, L_NOTHING);
	load(p, offsetof(struct seccomp_data, args) + 2 * sizeof(uint64_t) + 4);
	jump_if(p, BPF_JEQ, 0, ALLOW, L_NOTHING);
}

static void emit_filter(struct program *p, const struct target *target, const struct tree *tree)
{
	load(p, offsetof(struct seccomp_data, arch));
	jump_if(p, BPF_JEQ, target->audit_arch, NEXT, L_KILL);
	load(p, offsetof(struct seccomp_data, nr));
	emit_tree(p, tree, 0, tree->len - 1);

	rule_open(p);
	rule_mode(p, CHECK_MODE, 1);
	rule_mode(p, CHECK_MODE_AT, 2);
	rule_ioctl(p);
	rule_clone(p);
	rule_socket(p);
	rule_setsockopt(p);
	rule_mknod(p);
	rule_personality(p);
	rule_prctl(p);
	rule_fcntl(p);
	rule_huge_pages(p);
	rule_rlimit(p);

	answer(p, ALLOW, SECCOMP_RET_ALLOW);
	answer(p, DENY, SECCOMP_RET_ERRNO | EPERM);
	answer(p, ABSENT, SECCOMP_RET_ERRNO | ENOSYS);
	answer(p, L_BAD_FAMILY, SECCOMP_RET_ERRNO | EAFNOSUPPORT);
	answer(p, L_BAD_PROTOCOL, SECCOMP_RET_ERRNO | EPROTONOSUPPORT);
	answer(p, L_NO_MEMORY, SECCOMP_RET_ERRNO | ENOMEM);
	answer(p, L_INVALID, SECCOMP_RET_ERRNO | EINVAL);
	answer(p, L_NOTHING, SECCOMP_RET_ERRNO | 0);
	answer(p, L_KILL, SECCOMP_RET_KILL_PROCESS);
}

static bool is_set_id_test(const struct insn *insn)
{
	return BPF_CLASS(insn->code) == BPF_JMP && BPF_OP(insn->code) == BPF_JSET &&
	       insn->k == (S_ISUID | S_ISGID);
}

static void write_filter(const struct program *p, const struct target *target, const char *path)
{
	FILE *f = fopen(path, "we");

	if (!f)
		die("%s: %s", path, strerror(errno));
	fprintf(f, "/* Made by seccomp-gen for %s out of seccomp-table.h. */\n", target->name);
	fprintf(f, "static const struct sock_filter seccomp_filter[] = {\n");
	for (size_t i = 0; i < p->len; i++) {
		const struct insn *insn = &p->insns[i];
		bool jumps = BPF_CLASS(insn->code) == BPF_JMP;

		fprintf(f, "\t{0x%02x, %u, %u, 0x%x}, /* %zu */\n", insn->code,
			jumps ? distance(p, i, insn->yes) : 0U,
			jumps ? distance(p, i, insn->no) : 0U, insn->k, i);
	}
	fprintf(f, "};\n/* Where it looks for set-id bits. */\n");
	fprintf(f, "static const unsigned char seccomp_set_id_tests[] = {");
	for (size_t i = 0; i < p->len; i++)
		if (is_set_id_test(&p->insns[i]))
			fprintf(f, "%zu, ", i);
	fprintf(f, "};\n");
	if (ferror(f) || fclose(f) != 0)
		die("%s: could not be written", path);
}

static const struct target *find_target(const char *name)
{
	for (size_t i = 0; i < ARRAY_LEN(targets); i++)
		if (strcmp(targets[i].name, name) == 0)
			return &targets[i];
	die("no target '%s'", name);
}

int main(int argc, char **argv)
{
	static struct listed list;
	static struct tree tree;
	static struct program program = {.n_labels = LABELS_NAMED};

	if (argc != 3)
		die("usage: seccomp-gen x86_64|aarch64 OUTPUT");

	const struct target *target = find_target(argv[1]);

	for (size_t i = 0; i < ARRAY_LEN(call_groups); i++)
		list_group(&list, target, &call_groups[i]);
	merge_ranges(&tree, &list);
	plan_tree(&tree);
	emit_filter(&program, target, &tree);
	write_filter(&program, target, argv[2]);
	return 0;
}
