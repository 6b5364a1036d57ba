// Package rootfs makes the Debian root file systems that the test machines boot, and keeps them in a cache.
//
// A [Recipe] names a Debian suite and its packages. Its root file system lies in the cache under a name that covers everything it
// was made from (the suite, the packages, the script build.sh), so a change of any of them makes a new one. It appears by one
// rename, whole or not at all, and is never written to again: machines lay a file system of their own over it. Whoever uses one
// holds it with [Recipe.Use], so that a concurrent run with another recipe does not remove it meanwhile.
package rootfs
