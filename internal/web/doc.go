// Package web is the pages: what a person sees of Fairlead in a browser. Every page is
// a function from messages of the public API and the time to a view to HTML, and every
// form on a page that changes something is one call of that API.
//
// It is deliberately without state, without rights and without a second way to the
// data: it calls the same handlers as the API in process, and knows no store, no
// engine and no session. Who may see a page, where a form may come from and how
// somebody signs in belongs to the transport in front of it. It has no framework in
// the browser: the modules under static only refresh, scroll and listen for keys, and
// every page and every action works without them.
//
// Invariants: no page carries an inline script or style, so the content-security
// policy needs no exception; whatever comes from a repository, a job or a person is
// escaped by the templates or by the log renderer, never joined into HTML by hand;
// requested, observed and committed are three facts wherever an attempt is shown; a
// form carries the idempotency key that was made when it was rendered.
//
// Read next: internal/web/web.go, internal/web/page_run.go
package web
