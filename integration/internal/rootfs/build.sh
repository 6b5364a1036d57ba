#!/bin/sh
# build.sh SUITE DIRECTORY MIRROR CACHE BASE EXTRA
#
# Makes the Debian root file system of a test machine in DIRECTORY. BASE are the packages that debootstrap takes with it, separated
# by commas; EXTRA the ones installed after that without what they recommend, separated by blanks, maybe none. Packages are kept in
# CACHE. Runs in a mount namespace of its own, so that whatever it mounts goes away with it.
set -eu
suite=$1 root=$2 mirror=$3 cache=$4 base=$5 extra=$6

# A debootstrap that is older than the suite has no script for it. All recent suites are installed as sid is.
script=/usr/share/debootstrap/scripts/$suite
[ -e "$script" ] || script=/usr/share/debootstrap/scripts/sid
# dpkg syncs each file to disk. This file system is thrown away if its making is interrupted.
mkdir -p "$root/etc/dpkg/dpkg.cfg.d" "$cache"
echo force-unsafe-io >"$root/etc/dpkg/dpkg.cfg.d/unsafe-io"
# Nobody reads manuals in a test machine.
printf 'path-exclude=/usr/share/%s/*\n' doc man locale info >"$root/etc/dpkg/dpkg.cfg.d/no-docs"
debootstrap --variant=minbase --cache-dir="$cache" --include="$base" "$suite" "$root" "$mirror" "$script"

# Services must not start here, nor by themselves in the machine: a test starts what it needs.
printf '#!/bin/sh\nexit 101\n' >"$root/usr/sbin/policy-rc.d"
chmod 755 "$root/usr/sbin/policy-rc.d"
if [ -n "$extra" ]; then
	mount --bind "$cache" "$root/var/cache/apt/archives"
	mount -t proc proc "$root/proc"
	cp /etc/resolv.conf "$root/etc/resolv.conf"
	# shellcheck disable=SC2086 # a list
	DEBIAN_FRONTEND=noninteractive chroot "$root" apt-get -o APT::Keep-Downloaded-Packages=true \
		install --yes --no-install-recommends $extra
	umount "$root/proc" "$root/var/cache/apt/archives"
fi
rm -rf "$root/etc/systemd/system/multi-user.target.wants" "$root/var/cache/apt/archives" "$root/var/lib/apt/lists"
mkdir -p "$root/var/cache/apt/archives/partial" "$root/var/lib/apt/lists/partial"
rm -f "$root/usr/sbin/policy-rc.d" "$root/etc/resolv.conf" "$root/etc/hostname"

# With a machine id systemd does not take each boot for the first, which would enable units. Loading kernel modules is
# the host's business, timers would load the two cores while a test measures, and nobody logs in.
echo 0123456789abcdef0123456789abcdef >"$root/etc/machine-id"
mkdir -p "$root/etc/systemd/system"
for unit in systemd-modules-load.service timers.target getty.target console-getty.service \
	systemd-logind.service systemd-logind-varlink.socket; do
	ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
ln -sf /usr/lib/systemd/system/multi-user.target "$root/etc/systemd/system/default.target"
# Else each boot would bring /etc and /var up to date with a /usr that it takes for new.
chroot "$root" /usr/lib/systemd/systemd-update-done
