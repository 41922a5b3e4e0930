# What roots and machine share; they source it. It makes sure that roots can be built, and gives $cache, where they go,
# and $work, a directory for the time until they are whole. $me is who is at work.

cache=${VOUCH_LAB_CACHE:-/var/cache/vouch-lab}

# begin makes $work, which goes when the script ends.
begin() {
	if [ "$(id -u)" != 0 ] || ! command -v debootstrap >/dev/null; then
		echo "$me: needs root, and Debian's package debootstrap (make deps)" >&2
		exit 1
	fi
	mkdir -p "$cache"
	work=$(mktemp -d "$cache/new.XXXXXX")
	trap finish EXIT
	trap 'exit 1' HUP INT TERM
}

finish() {
	umount "$work/root/proc" 2>/dev/null || true
	rm -rf --one-file-system "$work"
}

# quietly STEP COMMAND...: says what is being done, and shows what it printed only when it fails.
quietly() {
	echo "$me: $1"
	shift
	if ! "$@" >"$work/log" 2>&1 </dev/null; then
		cat "$work/log" >&2
		return 1
	fi
}

# sources SUITE DIRECTORY puts there this machine's own way to Debian's packages, changed to another release.
sources() {
	for f in /etc/apt/sources.list.d/debian.sources /etc/apt/sources.list; do
		[ -s "$f" ] || continue
		sed "s/$(. /etc/os-release && echo "$VERSION_CODENAME")/$1/g" "$f" >"$2/${f##*/}"
		break
	done
}

inside() { chroot "$work/root" env DEBIAN_FRONTEND=noninteractive "$@"; }

# open_root RELEASE PACKAGE... makes $work/root, a small Debian with those packages, in which nothing is started, and
# /proc is mounted.
open_root() {
	release=$1
	shift
	quietly "Debian $release, which takes a minute" debootstrap --variant=minbase --include=ca-certificates "$release" "$work/root"
	rm -f "$work/root/etc/apt/sources.list"
	sources "$release" "$work/root/etc/apt/sources.list.d"
	cp /etc/apt/apt.conf.d/*proxy* "$work/root/etc/apt/apt.conf.d/" 2>/dev/null || true
	cp /etc/resolv.conf "$work/root/etc/resolv.conf"
	printf '#!/bin/sh\nexit 101\n' >"$work/root/usr/sbin/policy-rc.d"
	chmod 755 "$work/root/usr/sbin/policy-rc.d"
	mount -t proc proc "$work/root/proc"
	quietly "its package lists" inside apt-get update
	quietly "$*" inside apt-get install -y --no-install-recommends "$@"
}

# close_root NAME puts $work/root into the cache.
close_root() {
	inside apt-get clean
	umount "$work/root/proc"
	rm -rf --one-file-system "${cache:?}/$1"
	mv "$work/root" "$cache/$1"
}
