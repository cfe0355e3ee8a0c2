package httpapi

import "time"

// Limits of the transport. Each is felt by somebody, so each says what happens at it.
const (
	// bodyBytesMax bounds a request's body, before and after decompression. Over it:
	// too_large (413).
	bodyBytesMax = 4 << 20
	// exchangeBytesMax is the same for a runner's exchange, which carries log chunks.
	exchangeBytesMax = 16 << 20
	// framingBytes is what envelopes and JSON escapes of the protocol may add to a body.
	framingBytes = 64 << 10
	// formBytesMax bounds a form of the pages.
	formBytesMax = 256 << 10
	// headerBytesMax bounds a request's header. Over it net/http answers 431.
	headerBytesMax = 64 << 10
	// keyBytesMax bounds an idempotency key. Over it: invalid_argument (400).
	keyBytesMax = 256
	// tokensMax bounds the acknowledgement tokens of one request.
	tokensMax = 16

	// headerWait is how long a connection may take to send a header.
	headerWait = 10 * time.Second
	// idleWait is how long a connection may stay idle; longer than a runner's poll.
	idleWait = 2 * time.Minute
	// stallWait ends a request whose peer neither sends nor takes bytes. It rolls: a slow
	// transfer that moves is not ended by it.
	stallWait = 30 * time.Second
	// bodyWait ends a request whose bounded body isn't complete by then.
	bodyWait = time.Minute

	// heartbeat is how often an idle event stream says that it is alive.
	heartbeat = 15 * time.Second
	// openWait is how long a stream waits for its first message, or a refusal, before it
	// sends its header.
	openWait = 500 * time.Millisecond
	// eventBytesMax is the largest piece of a log in one server-sent event.
	eventBytesMax = 64 << 10
)
