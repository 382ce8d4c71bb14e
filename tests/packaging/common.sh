# SPDX-License-Identifier: LGPL-2.1-or-later
# SPDX-FileCopyrightText: 2026 The parkade authors
# shellcheck shell=bash
#
# What the tests of the packages share: a release and its builds, scratch roots, counting.

export LC_ALL=C.UTF-8 DEBIAN_FRONTEND=noninteractive
unset MAKEFLAGS MFLAGS MAKELEVEL LD_PRELOAD
# What the tests of this machine's build are told is not for the packages.
unset CC CXX CPP CFLAGS CXXFLAGS CPPFLAGS LDFLAGS PYTHON
umask 022
failures=0

skip() {
	echo "$*"
	exit 77
}
needs() {
	for tool; do
		command -v "$tool" >/dev/null || skip "there is no $tool"
	done
}
needs_root() { [ "$(id -u)" = 0 ] || skip "only root can make a scratch root"; }

# check WHAT [LOG]: did the command before it succeed?
check() {
	if [ $? = 0 ]; then
		echo "passed: $1"
	else
		echo "FAILED: $1"
		[ -z "${2-}" ] || sed -e 's/^/  | /' "$2"
		failures=$((failures + 1))
	fi
}
fail_with() {
	tail -n 60 "$1" | sed -e 's/^/  | /'
	echo "FAILED: $2"
	exit 1
}
finish() {
	[ $failures = 0 ]
	exit
}

# release DIR DIR2: configures in both, makes the tarball in both, which must be the same, and
# leaves the release unpacked in them.
release() {
	local place name
	for place; do
		mkdir -p "$place/build"
		(cd "$place/build" && "$PARKADE_SRCDIR/configure" -q && make -s dist) >"$place.log" 2>&1 ||
			fail_with "$place.log" "make dist"
		name=$(basename "$place"/build/parkade-*.tar.xz)
		tar -xf "$place/build/$name" -C "$place" --strip-components=1
	done
	cmp "$1/build/$name" "$2/build/$name"
	check "two tarballs are the same"
	rm -r "$1/build" "$2/build"
}
# in_release DIR COMMAND...: in the configured release.
in_release() (
	cd "$1" && shift && ./configure -q && "$@"
)

# same DIR DIR2 PATTERN...: the files that match are the same in both.
same() {
	local one=$1 two=$2 pattern file name
	shift 2
	for pattern; do
		for file in "$one"/$pattern; do
			name=$(basename "$file")
			cmp "$file" "$two/$name"
			check "two builds are the same: $name"
		done
	done
}

# make_root DIR PACKAGE,... [ARCHITECTURE,...]: a Debian root of the suite that runs here, without
# updates, which two architectures may get at different times. Where the mirror does not answer
# the test is skipped.
make_root() {
	local suite mirror
	suite=$(. /etc/os-release && echo "$VERSION_CODENAME")
	mirror=$(apt-get indextargets --format '$(RELEASE) $(COMPONENT) $(CREATED_BY) $(REPO_URI)' |
		sed -n "s/^$suite main Packages //p" | head -n 1)
	[ -n "$mirror" ] || skip "no mirror is known for the main packages of $suite"
	for _ in 1 2 3; do
		rm -rf "$1"
		mmdebstrap --quiet --mode=root --variant=minbase --architectures="${3:-$(dpkg --print-architecture)}" \
			--include="$2" "$suite" "$1" "$mirror" >"$1.log" 2>&1 && return
		sleep 10
	done
	tail -n 20 "$1.log"
	! grep -qE "Failed to fetch|Could not resolve|Unable to connect" "$1.log" || skip "the mirror does not answer"
	fail_with "$1.log" "mmdebstrap"
}
# /dev is the root's own: nothing of this machine's lies below it.
mount_all() {
	mount -t proc proc "$1/proc" && mount -t tmpfs tmpfs "$1/tmp" || skip "nothing can be mounted here"
}
# clean_up DIR ROOT: away with both, whatever the test was doing.
clean_up() {
	local place
	sed -n "s,^[^ ]* \\($2/[^ ]*\\) .*,\\1,p" /proc/mounts | sort -r | while read -r place; do
		umount -l "$place"
	done
	rm -rf --one-file-system "$1"
}
inside() { chroot "$root" "$@"; }

# remains LOG LIBDIR: the removal of the command said how to switch off what was enabled by it.
remains() {
	grep -q "by /etc/ld.so.preload; to end that: $2/parkade/system-preload disable$" "$1" &&
		grep -q "by /etc/systemd/system/memcached.service.d/50-parkade.conf; to end that, delete it" "$1"
}

# Everything in a root but logs, caches and what the package manager notes about itself.
snapshot() {
	(cd "$1" && find . -xdev \( -path ./proc -o -path ./dev -o -path ./tmp -o -path ./run -o -path "./debs*" -o -path ./rpms -o -path ./var/log \
		-o -path ./var/cache -o -path ./var/lib/dpkg -o -path ./var/lib/rpm -o -path ./root \) -prune -o \
		! -type d -printf '%p %M %s %l\n' -o -printf '%p %M\n' | grep -v '^./etc/ld.so.cache ' | sort)
}
