package crash

import "net/http"

// once sends each request once. Go's transport sends one with an idempotency key again by
// itself when its connection breaks before the answer, and then a history would hold one call
// where the server has seen two.
type once struct{ transport *http.Transport }

// RoundTrip implements http.RoundTripper.
func (o once) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.GetBody = nil // what can't be read again can't be sent again
	return o.transport.RoundTrip(r)
}

// oneTry is a client that keeps connections and tries nothing twice.
func oneTry() *http.Client {
	return &http.Client{Transport: once{&http.Transport{MaxIdleConnsPerHost: 8}}}
}
