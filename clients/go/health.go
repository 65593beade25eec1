// Package weirhealth reports an application's health: GET /weir/health and /weir/health/live.
//
//	package main
//	import "time"
//	import "example.com/shop/weirhealth"
//	type result = weirhealth.Result
//
//	func workers() (result, error)  { return result{}, nil } // an error fails it
//	func feedRate() (result, error) { return result{ObservedValue: 62, ObservedUnit: "/s", Threshold: 50}, nil }
//	func main() {
//		health := weirhealth.New("shop", "1.4.2")
//		health.Register("workers", workers, 5*time.Second, weirhealth.Self)
//		health.Register("feed:rate", feedRate, 10*time.Second, weirhealth.Dependency)
//		health.Serve(9201) // blocks; or: mux.Handle("/weir/", health)
//	}
//
// A check passes unless it returns an error, panics, or sets another status. Each check runs in a
// separate goroutine; requests never run one.
package weirhealth

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync"
	"time"
)

// The scopes: what only this process can fail at, and what its siblings need as well.
const Self, Dependency = "self", "dependency"

// Result is what a check found; all members may be left out. The digest sets Scope and Time.
type Result struct {
	Status        string `json:"status"` // pass, warn or fail
	Scope         string `json:"scope"`
	ObservedValue any    `json:"observedValue,omitempty"`
	ObservedUnit  string `json:"observedUnit,omitempty"`
	Threshold     any    `json:"threshold,omitempty"`
	Output        string `json:"output,omitempty"`
	Time          string `json:"time,omitempty"`
}

type check struct {
	every          time.Duration
	result         Result
	started, ended time.Time // started is zero between runs
}

// Health runs checks and is the http.Handler of their results.
type Health struct {
	Service, Release string
	Clock            func() time.Time
	mutex            sync.Mutex
	checks           map[string]*check
}

// New makes a digest without checks.
func New(service, release string) *Health {
	return &Health{Service: service, Release: release, Clock: time.Now, checks: map[string]*check{}}
}

// Register runs a check now, and again `every` after each end. It panics at a wrong argument.
func (h *Health) Register(name string, run func() (Result, error), every time.Duration, scope string) {
	c := &check{every, Result{Status: "warn", Scope: scope, Output: "no result yet"}, time.Time{}, h.Clock()}
	h.mutex.Lock()
	defer h.mutex.Unlock()
	if (scope != Self && scope != Dependency) || every <= 0 || h.checks[name] != nil {
		panic(fmt.Sprintf("cannot register check `%s`: the scope is self or dependency, every > 0, the name new", name))
	}
	h.checks[name] = c
	go func() {
		for ; ; time.Sleep(every) {
			h.mutex.Lock()
			c.started = h.Clock()
			h.mutex.Unlock()
			result := once(run, scope)
			h.mutex.Lock()
			c.result, c.started, c.ended = result, time.Time{}, h.Clock()
			h.mutex.Unlock()
		}
	}()
}

func once(run func() (Result, error), scope string) (result Result) {
	defer func() {
		if why := recover(); why != nil {
			result = Result{Status: "fail", Output: fmt.Sprint("panic: ", why)}
		} else if _, err := json.Marshal(result); err != nil { // a number that is not finite
			result.ObservedValue, result.Threshold = nil, nil
		}
		result.Output = fmt.Sprintf("%.500s", result.Output)
		result.Scope, result.Time = scope, time.Now().UTC().Format(time.RFC3339)
	}()
	result, err := run()
	if err != nil {
		result.Status, result.Output = "fail", err.Error()
	} else if result.Status == "" {
		result.Status = "pass"
	} else if !strings.Contains(" pass warn fail ", " "+result.Status+" ") {
		result.Status, result.Output = "fail", "unknown status "+result.Status
	}
	return result
}

// ServeHTTP answers with the last results.
func (h *Health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	code, digest := 200, map[string]any{"status": "pass"}
	if strings.HasSuffix(r.URL.Path, "/weir/health") {
		code, digest = h.digest()
	} else if !strings.HasSuffix(r.URL.Path, "/weir/health/live") {
		http.NotFound(w, r)
		return
	}
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		w.Header().Set("Allow", "GET, HEAD")
		code, digest = http.StatusMethodNotAllowed, nil
	}
	w.Header().Set("Content-Type", "application/health+json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(code)
	json.NewEncoder(w).Encode(digest) // net/http leaves it out for HEAD
}

func (h *Health) digest() (int, map[string]any) {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	code, status, checks := 200, "pass", map[string][]Result{}
	for name, c := range h.checks {
		now, result, isFailed := h.Clock(), c.result, c.result.Status == "fail"
		if !c.started.IsZero() && now.Sub(c.started) > c.every {
			result, isFailed = Result{Status: "fail", Scope: result.Scope, Output: fmt.Sprintf("no result within %v", c.every)}, true
		} else if age := now.Sub(c.ended); age > 3*c.every { // does not count as a failure of the application
			output := fmt.Sprintf("stale: did not run for %v, every %v; last: %s", age.Round(time.Second), c.every, result.Output)
			result.Status, result.Output = "fail", output
		}
		if isFailed && result.Scope == Self {
			code, status = 503, "fail"
		} else if result.Status != "pass" && code == 200 {
			status = "warn"
		}
		checks[name] = []Result{result}
	}
	return code, map[string]any{"status": status, "serviceId": h.Service, "releaseId": h.Release, "checks": checks}
}

// Serve answers on a port of the loopback, and returns only when it cannot.
func (h *Health) Serve(port int) error {
	return (&http.Server{Addr: fmt.Sprintf("127.0.0.1:%d", port), Handler: h, ReadHeaderTimeout: 10 * time.Second}).ListenAndServe()
}
