// Labpod is the one static program inside the lab's pods and its small HTTP client inside namespaces; it uses
// nothing but Go's standard library.
//
//	labpod pause                           holds a pod's sandbox and reaps its zombies
//	labpod http ADDR                       answers who it is and who asked; silent on stdout but for /say?line=;
//	                                       /metrics, /later?ms=, /stream?lines=&ms=
//	labpod talk INTERVAL                   writes a numbered, timed line to stdout at each interval
//	labpod webhook ADDR CERT KEY           validating webhook: refuses objects labelled deny=yes
//	labpod api ADDR CERT KEY               aggregated API lab.example/v1 with one resource, "probes"
//	labpod get [flags] URL                 one GET; -until tries again until it answers 200
package main

import (
	"crypto/tls"
	"crypto/x509"
	"encoding/json"
	"flag"
	"fmt"
	"io"
	"log"
	"net/http"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"sync/atomic"
	"syscall"
	"time"
)

func main() {
	log.SetFlags(0)
	log.SetPrefix("labpod: ")
	if len(os.Args) < 2 {
		log.Fatal("say what to do: pause, http, talk, webhook, api or get")
	}
	args := os.Args[2:]
	switch os.Args[1] {
	case "pause":
		pause()
	case "http":
		need(args, 1)
		log.Fatal(http.ListenAndServe(args[0], web()))
	case "talk":
		need(args, 1)
		talk(args[0])
	case "webhook":
		need(args, 3)
		log.Fatal(http.ListenAndServeTLS(args[0], args[1], args[2], http.HandlerFunc(review)))
	case "api":
		need(args, 3)
		log.Fatal(http.ListenAndServeTLS(args[0], args[1], args[2], http.HandlerFunc(api)))
	case "get":
		get(args)
	default:
		log.Fatalf("there is no %q", os.Args[1])
	}
}

func need(args []string, count int) {
	if len(args) != count {
		log.Fatalf("%s takes %d arguments, not %d", os.Args[1], count, len(args))
	}
}

// pause is PID 1 of a sandbox that shares its PID namespace, so it must reap.
func pause() {
	signals := make(chan os.Signal, 8)
	signal.Notify(signals, syscall.SIGINT, syscall.SIGTERM, syscall.SIGCHLD)
	for s := range signals {
		if s != syscall.SIGCHLD {
			return
		}
		for {
			if pid, err := syscall.Wait4(-1, nil, syscall.WNOHANG, nil); pid <= 0 || err != nil {
				break
			}
		}
	}
}

func talk(interval string) {
	every, err := time.ParseDuration(interval)
	if err != nil {
		log.Fatal(err)
	}
	for n := 1; ; n++ {
		fmt.Printf("line %d at %d\n", n, time.Now().UnixMilli())
		time.Sleep(every)
	}
}

func web() http.Handler {
	host, _ := os.Hostname()
	var requests atomic.Int64
	mux := http.NewServeMux()
	mux.HandleFunc("/metrics", func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "# TYPE labpod_requests_total counter\nlabpod_requests_total %d\n", requests.Load())
	})
	mux.HandleFunc("/say", func(w http.ResponseWriter, r *http.Request) {
		fmt.Println(r.URL.Query().Get("line"))
		fmt.Fprintln(w, "said")
	})
	mux.HandleFunc("/later", func(w http.ResponseWriter, r *http.Request) {
		w.WriteHeader(http.StatusOK)
		flush(w)
		wait(r, number(r, "ms", 1000))
		fmt.Fprintf(w, "said later by %s\n", host)
	})
	mux.HandleFunc("/stream", func(w http.ResponseWriter, r *http.Request) {
		for n := range number(r, "lines", 10) {
			fmt.Fprintf(w, "line %d of %s at %d\n", n+1, host, time.Now().UnixMilli())
			flush(w)
			wait(r, number(r, "ms", 1000))
		}
	})
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		requests.Add(1)
		fmt.Fprintf(w, "hello from %s to %s\n", host, r.RemoteAddr)
	})
	return mux
}

func flush(w http.ResponseWriter) {
	if f, ok := w.(http.Flusher); ok {
		f.Flush()
	}
}

func wait(r *http.Request, ms int) {
	select {
	case <-r.Context().Done():
	case <-time.After(time.Duration(ms) * time.Millisecond):
	}
}

func number(r *http.Request, name string, otherwise int) int {
	n, err := strconv.Atoi(r.URL.Query().Get(name))
	if err != nil || n < 0 {
		return otherwise
	}
	return n
}

func review(w http.ResponseWriter, r *http.Request) {
	var in struct {
		Request struct {
			UID    string `json:"uid"`
			Object struct {
				Metadata struct {
					Labels map[string]string `json:"labels"`
				} `json:"metadata"`
			} `json:"object"`
		} `json:"request"`
	}
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil {
		http.Error(w, err.Error(), http.StatusBadRequest)
		return
	}
	allowed := in.Request.Object.Metadata.Labels["deny"] != "yes"
	log.Printf("review %s allowed=%v from %s", in.Request.UID, allowed, r.RemoteAddr)
	answer := map[string]any{"uid": in.Request.UID, "allowed": allowed}
	if !allowed {
		answer["status"] = map[string]any{"message": "the lab's webhook says no", "code": 403}
	}
	reply(w, map[string]any{"apiVersion": "admission.k8s.io/v1", "kind": "AdmissionReview", "response": answer})
}

func api(w http.ResponseWriter, r *http.Request) {
	switch strings.TrimSuffix(r.URL.Path, "/") {
	case "/apis/lab.example/v1":
		reply(w, map[string]any{"kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "lab.example/v1",
			"resources": []any{map[string]any{"name": "probes", "singularName": "probe", "namespaced": false,
				"kind": "Probe", "verbs": []string{"get", "list"}}}})
	case "/apis/lab.example/v1/probes":
		reply(w, map[string]any{"kind": "ProbeList", "apiVersion": "lab.example/v1",
			"metadata": map[string]any{"resourceVersion": "1"},
			"items": []any{map[string]any{"kind": "Probe", "apiVersion": "lab.example/v1",
				"metadata": map[string]any{"name": "alive"}}}})
	default:
		http.NotFound(w, r)
	}
}

func reply(w http.ResponseWriter, value any) {
	w.Header().Set("Content-Type", "application/json")
	if err := json.NewEncoder(w).Encode(value); err != nil {
		log.Print(err)
	}
}

// get prints the body and exits 0 only for 200; it never tries again unless -until says so.
func get(args []string) {
	flags := flag.NewFlagSet("get", flag.ExitOnError)
	ca := flags.String("ca", "", "PEM file of the only authority to trust")
	cert := flags.String("cert", "", "PEM file of the client's certificate")
	key := flags.String("key", "", "PEM file of the client's key")
	timeout := flags.Duration("timeout", 10*time.Second, "limit of one GET")
	until := flags.Duration("until", 0, "try again this long until the answer is 200")
	_ = flags.Parse(args)
	if flags.NArg() != 1 {
		log.Fatal("get takes one URL")
	}
	client := &http.Client{Timeout: *timeout, Transport: &http.Transport{TLSClientConfig: trust(*ca, *cert, *key), DisableKeepAlives: true}}
	deadline := time.Now().Add(*until)
	for {
		body, err := once(client, flags.Arg(0))
		if err == nil || time.Now().After(deadline) {
			_, _ = os.Stdout.Write(body)
			if err != nil {
				log.Fatal(err)
			}
			return
		}
		time.Sleep(50 * time.Millisecond)
	}
}

func once(client *http.Client, url string) ([]byte, error) {
	answer, err := client.Get(url)
	if err != nil {
		return nil, err
	}
	defer answer.Body.Close()
	body, err := io.ReadAll(answer.Body)
	if err == nil && answer.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answered %s", url, answer.Status)
	}
	return body, err
}

func trust(ca, cert, key string) *tls.Config {
	config := &tls.Config{}
	if ca != "" {
		pem, err := os.ReadFile(ca)
		if err != nil {
			log.Fatal(err)
		}
		config.RootCAs = x509.NewCertPool()
		config.RootCAs.AppendCertsFromPEM(pem)
	}
	if cert != "" {
		pair, err := tls.LoadX509KeyPair(cert, key)
		if err != nil {
			log.Fatal(err)
		}
		config.Certificates = []tls.Certificate{pair}
	}
	return config
}
