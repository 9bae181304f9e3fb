#include "image/host.h"

#include "base/attr.h"

/*
 * Nothing of /root, /home, /var, /run, /srv, /mnt, /opt, and of /etc only what is
 * named here: none of it holds secrets on any machine that is set up sanely.
 */
const struct host_item host_items[] = {
	{HOST_TREE, "usr", NULL},
	{HOST_ROOT_DIR, "bin", NULL},
	{HOST_ROOT_DIR, "sbin", NULL},
	{HOST_ROOT_DIR, "lib", NULL},
	{HOST_ROOT_DIR, "lib32", NULL},
	{HOST_ROOT_DIR, "lib64", NULL},
	{HOST_ROOT_DIR, "libx32", NULL},

	{HOST_DIR, "proc", NULL},
	{HOST_DIR, "sys", NULL},
	{HOST_DIR, "tmp", NULL},
	{HOST_DIR, "workspace", NULL},
	{HOST_DIR, "run", NULL},
	{HOST_DIR, "var", NULL},
	{HOST_SYMLINK, "var/tmp", "../tmp"},
	{HOST_SYMLINK, "var/run", "../run"},

	{HOST_DIR, "dev", NULL},
	{HOST_DIR, "dev/pts", NULL},
	{HOST_DIR, "dev/shm", NULL}, /* empty: it also hides directories of /proc */
	{HOST_DEVICE, "dev/null", NULL},
	{HOST_DEVICE, "dev/zero", NULL},
	{HOST_DEVICE, "dev/full", NULL},
	{HOST_DEVICE, "dev/random", NULL},
	{HOST_DEVICE, "dev/urandom", NULL},
	{HOST_DEVICE, "dev/tty", NULL},
	{HOST_SYMLINK, "dev/ptmx", "pts/ptmx"},
	{HOST_SYMLINK, "dev/fd", "/proc/self/fd"},
	{HOST_SYMLINK, "dev/stdin", "/proc/self/fd/0"},
	{HOST_SYMLINK, "dev/stdout", "/proc/self/fd/1"},
	{HOST_SYMLINK, "dev/stderr", "/proc/self/fd/2"},

	{HOST_DIR, "etc", NULL},
	{HOST_DIR, "etc/ssl", NULL},
	{HOST_FILE, "etc/passwd",
	 "root:x:0:0:root:/:/usr/sbin/nologin\n"
	 "cay:x:1000:1000:cay:/workspace:/bin/sh\n"
	 "nobody:x:65534:65534:nobody:/:/usr/sbin/nologin\n"},
	{HOST_FILE, "etc/group", "root:x:0:\ntty:x:5:\ncay:x:1000:\nnogroup:x:65534:\n"},
	{HOST_FILE, "etc/hosts", "127.0.0.1 localhost cay\n::1 localhost\n"},
	{HOST_FILE, "etc/hostname", "cay\n"},
	{HOST_FILE, "etc/resolv.conf", "nameserver 198.18.0.1\n"},
	{HOST_FILE, "etc/nsswitch.conf",
	 "passwd: files\ngroup: files\nhosts: files dns\nservices: files\nprotocols: files\n"},
	{HOST_SYMLINK, "etc/mtab", "../proc/self/mounts"},
	{HOST_TREE, "etc/alternatives", NULL},
	{HOST_TREE, "etc/fonts", NULL},
	{HOST_COPY, "etc/ld.so.cache", NULL},
	{HOST_LINK, "etc/localtime", NULL},
	{HOST_LINK, "etc/os-release", NULL},
	{HOST_COPY, "etc/protocols", NULL},
	{HOST_COPY, "etc/services", NULL},
	{HOST_TREE, "etc/ssl/certs", NULL},
	{HOST_COPY, "etc/ssl/openssl.cnf", NULL},

	/*
	 * What Debian's programs don't start without, though it is in /etc. Where the
	 * package has the same in /usr, that is what is seen: a symlink costs less than a
	 * mount (4 us against 10, for every run), and shows nothing that the operator
	 * wrote into the other.
	 */
	{HOST_TREE, "etc/ImageMagick-6", NULL},
	{HOST_TREE, "etc/java-17-openjdk", NULL},
	{HOST_TREE, "etc/java-21-openjdk", NULL},

	{HOST_WHEN, "usr/share/matplotlib", NULL},
	{HOST_SYMLINK, "etc/matplotlibrc", "/usr/share/matplotlib/mpl-data/matplotlibrc"},

	/* Its shell script sources all that is there, and fails where there is nothing. */
	{HOST_WHEN, "usr/bin/chromium", NULL},
	{HOST_DIR, "etc/chromium.d", NULL},
	{HOST_FILE, "etc/chromium.d/island", ""},

	/* Not Renviron.site and Rprofile.site: some keep tokens there. */
	{HOST_WHEN, "usr/lib/R", NULL},
	{HOST_DIR, "etc/R", NULL},
	{HOST_COPY, "etc/R/Makeconf", NULL},
	{HOST_COPY, "etc/R/ldpaths", NULL},
	{HOST_SYMLINK, "etc/R/Renviron", "/usr/lib/R/etc/Renviron.ucf"},

	/* Not mods-available: monitoring agents have their keys there. */
	{HOST_WHEN, "usr/lib/php/8.2", NULL},
	{HOST_DIR, "etc/php", NULL},
	{HOST_DIR, "etc/php/8.2", NULL},
	{HOST_DIR, "etc/php/8.2/cli", NULL},
	{HOST_SYMLINK, "etc/php/8.2/cli/conf.d", "/usr/share/php8.2-common/common"},
	{HOST_SYMLINK, "etc/php/8.2/cli/php.ini", "/usr/lib/php/8.2/php.ini-production.cli"},
};
const size_t n_host_items = ARRAY_LEN(host_items);
