package browser

import cdpruntime "github.com/chromedp/cdproto/runtime"

// awaitPromise makes an evaluation return the value of a promise.
func awaitPromise(p *cdpruntime.EvaluateParams) *cdpruntime.EvaluateParams {
	return p.WithAwaitPromise(true)
}
