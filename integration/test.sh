#!/bin/sh
# Runs all checks and tests. As root on Debian it first installs what they need and is missing, and makes the root file systems of
# the test machines, in /var/cache/zddsupervisor or $ZDD_TEST_CACHE. What cannot be run is skipped, and the end of the output says
# what that was and why; with CI=true a skip is a failure.
set -eu
cd "$(dirname "$0")/.."

missing=
need() { # need COMMAND PACKAGE...
	command -v "$1" >/dev/null && return
	shift
	missing="$missing $*"
}
need go golang-go
need gcc gcc libc6-dev # for the race detector
need debootstrap debootstrap
need ip iproute2
need groff groff-base # for the manual pages

if [ "$(id -u)" = 0 ]; then
	# Debian keeps them where a shell that became root may not look.
	PATH=$PATH:/usr/local/sbin:/usr/sbin:/sbin
	if [ -n "$missing" ] && [ -e /etc/debian_version ] && command -v apt-get >/dev/null; then
		echo "installing$missing"
		# shellcheck disable=SC2086 # a list
		apt-get update -qq && DEBIAN_FRONTEND=noninteractive \
			apt-get install --yes --quiet --no-install-recommends --no-upgrade $missing ||
			echo "not installed:$missing" >&2
	fi
	# Of Debian's prometheus only promtool is wanted: the rest would be a server that is started.
	tools=${ZDD_TEST_CACHE:-/var/cache/zddsupervisor}/tools
	PATH=$PATH:$tools
	if ! command -v promtool >/dev/null && [ -e /etc/debian_version ] && command -v apt-get >/dev/null; then
		unpacked=$(mktemp -d)
		chmod 755 "$unpacked" # apt downloads as a user of its own
		(
			cd "$unpacked" &&
				{ apt-get download -qq prometheus 2>/dev/null || { apt-get update -qq && apt-get download -qq prometheus; }; } &&
				dpkg-deb --extract prometheus_*.deb . && mkdir -p "$tools" && mv usr/bin/promtool "$tools/"
		) || echo "promtool cannot be had" >&2
		rm -rf "$unpacked"
	fi
	# The tests that need a root file system which is not there say so.
	if command -v debootstrap >/dev/null; then
		go run ./integration/prepare || echo "some test machines cannot be booted" >&2
	fi
fi

programs=$(mktemp -d)
trap 'rm -rf "$programs"' EXIT
go build -o "$programs/check" ./integration/internal/check
"$programs/check"
