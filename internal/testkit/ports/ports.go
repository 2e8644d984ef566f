// Package ports has addresses for tests at which there is certainly nobody.
package ports
