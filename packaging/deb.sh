#!/bin/sh
# Builds the Debian package: packaging/deb.sh VERSION DIR makes DIR/zddsupervisor_VERSION_ARCH.deb for this machine's architecture. It
# takes Go and dpkg-deb. The same source, version and toolchain make the same bytes. Who builds for others sets DEBFULLNAME and DEBEMAIL.
set -eu
umask 022
if [ $# != 2 ]; then
	echo "usage: $0 VERSION DIR" >&2
	exit 2
fi
version=$1
dpkg --validate-version "$version"
mkdir -p "$2"
out=$(cd "$2" && pwd)
cd "$(dirname "$0")/.."
arch=$(dpkg --print-architecture)
# No file in the package is younger than its source.
SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git log -1 --format=%ct 2>/dev/null || stat --format=%Y CHANGELOG.md)}
export SOURCE_DATE_EPOCH

root=$(mktemp -d)
trap 'rm -rf "$root"' EXIT
chmod 755 "$root"
program=$root/usr/bin/zddsupervisor
CGO_ENABLED=0 go build -trimpath -buildvcs=false -ldflags "-s -w -buildid= -X main.packaged=$version" -o "$program" ./cmd/zddsupervisor

dir() { # dir PATH: makes a directory of the package
	mkdir -p "$root/$1"
	printf '%s\n' "$root/$1"
}
units=$(dir usr/lib/systemd/system)
# The unit names the program that prints it.
"$program" unit --template | sed "s|$root/|/|g" >"$units/zddsupervisor@.service"
"$program" completion bash >"$(dir usr/share/bash-completion/completions)/zddsupervisor"
"$program" completion zsh >"$(dir usr/share/zsh/vendor-completions)/_zddsupervisor"
"$program" completion fish >"$(dir usr/share/fish/vendor_completions.d)/zddsupervisor.fish"
dir etc/zddsupervisor >/dev/null

pages=$(mktemp -d)
trap 'rm -rf "$root" "$pages"' EXIT
"$program" manual "$pages"
for page in "$pages"/*; do
	section=${page##*.}
	gzip -9nc "$page" >"$(dir "usr/share/man/man$section")/${page##*/}.gz"
done
doc=$(dir usr/share/doc/zddsupervisor)
gzip -9nc CHANGELOG.md >"$doc/changelog.gz"
# Debian wants a copyright file. It is the licence's text, and there is none without a licence.
for licence in LICENSE LICENCE COPYING; do
	if [ -e "$licence" ]; then
		cp "$licence" "$doc/copyright"
	fi
done

control=$(dir DEBIAN)
size=$(du --summarize --apparent-size --block-size=1K --exclude=DEBIAN "$root" | cut -f1)
sed -e "s|@VERSION@|$version|" -e "s|@ARCH@|$arch|" -e "s|@SIZE@|$size|" \
	-e "s|@MAINTAINER@|${DEBFULLNAME:-zddsupervisor} <${DEBEMAIL:-root@localhost}>|" packaging/debian/control >"$control/control"
for script in postinst prerm postrm; do
	install -m 755 "packaging/debian/$script" "$control/$script"
done
(cd "$root" && find . -type f ! -path './DEBIAN/*' -printf '%P\0' | LC_ALL=C sort -z | xargs -0 md5sum) >"$control/md5sums"
dpkg-deb --root-owner-group -Zxz --build "$root" "$out/zddsupervisor_${version}_$arch.deb"
