// Package ports has addresses for tests that nobody else has.
package ports
