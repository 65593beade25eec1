// Program of the conformance test: `conform DIRECTORY`; files in the directory are its faults.
package main

import (
	"errors"
	"fmt"
	"io"
	"math"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"time"

	"example.com/shop/weirhealth"
)

type result = weirhealth.Result

func fault(name string) (string, bool) {
	text, err := os.ReadFile(filepath.Join(os.Args[1], name))
	return string(text), err == nil
}

func thrower(name string) func() (result, error) {
	return func() (result, error) {
		if text, isThere := fault(name); isThere {
			return result{}, errors.New(text)
		}
		return result{}, nil
	}
}

func counter() func() (result, error) {
	runs := 0
	return func() (result, error) {
		runs++
		return result{ObservedValue: runs, ObservedUnit: "runs", Threshold: 1}, nil
	}
}

func hang() (result, error) {
	for {
		if _, isThere := fault("hang"); !isThere {
			return result{}, nil
		}
		time.Sleep(20 * time.Millisecond)
	}
}

func odd() (result, error) {
	switch kind, _ := fault("odd"); kind {
	case "false":
		return result{Status: "fail", Output: "the check returned false"}, nil
	case "warn":
		return result{Status: "warn", Output: "slow"}, nil
	case "status":
		return result{Status: "fine"}, nil
	case "nan":
		return result{ObservedValue: math.NaN(), Threshold: math.Inf(1), Output: "no rate"}, nil
	case "text":
		return result{}, errors.New("cannot read \"a\\b\"\n\t\xff\x00" + strings.Repeat("x", 9000))
	case "exit":
		panic("gone")
	}
	return result{}, nil
}

func listen(handler http.Handler) int {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		panic(err)
	}
	go http.Serve(listener, handler)
	return listener.Addr().(*net.TCPAddr).Port
}

func isRefused(health *weirhealth.Health, name string, every time.Duration, scope string) (isRefused bool) {
	defer func() { isRefused = recover() != nil }()
	health.Register(name, hang, every, scope)
	return false
}

func main() {
	health := weirhealth.New("shop", "1.4.2")
	health.Clock = func() time.Time {
		if _, isThere := fault("later"); isThere {
			return time.Now().Add(1000 * time.Second)
		}
		return time.Now()
	}
	often := 200 * time.Millisecond
	health.Register("self", thrower("self"), often, weirhealth.Self)
	health.Register("dependency", thrower("dependency"), often, weirhealth.Dependency)
	health.Register("hang", hang, often, weirhealth.Dependency)
	health.Register("odd", odd, often, weirhealth.Dependency)
	health.Register("count", counter(), 30*time.Second, weirhealth.Self)
	health.Register("tick", counter(), often, weirhealth.Self)
	if !isRefused(health, "count", often, "self") || !isRefused(health, "a", 0, "self") || !isRefused(health, "a", often, "own") {
		panic("a wrong check was accepted")
	}
	mux := http.NewServeMux()
	mux.Handle("/weir/", health)
	mux.HandleFunc("/", func(w http.ResponseWriter, _ *http.Request) { io.WriteString(w, "application") })
	fmt.Println(listen(health), listen(mux))
	io.Copy(io.Discard, os.Stdin)
}
