// Package repo holds the laws of the tree as tests: which package may import which, how long a file may be, that every
// module has a page and an example, that every example is a valid config and every link in the docs leads somewhere.
package repo
