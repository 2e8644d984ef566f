// Package adapt holds what each Caddyfile option becomes in JSON, and what each mistake gets, as files.
package adapt
