// SPDX-License-Identifier: BSD-2-Clause

// Publishes, cancels and pulls jobs over HTTP, and verifies signed callbacks. Only the standard library.
//
//	http publish ROUTE ID DELAY TEXT    stores a job
//	http cancel ROUTE ID                cancels it
//	http pull QUEUE                     waits for a job, prints it, acknowledges it
//	http receive PORT SECRET            prints the next callback if its signature is valid
package main

import (
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"io"
	"log"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

const maxAge = 5 * time.Minute // older callbacks may be replays of an attacker

func tarry() string {
	if address := os.Getenv("TARRY_HTTP"); address != "" {
		return address
	}
	return "http://127.0.0.1:7700"
}

// call decodes the answer into out, and returns the status.
func call(method, path, body string, headers map[string]string, out any) int {
	request, err := http.NewRequest(method, tarry()+path, strings.NewReader(body))
	if err != nil {
		log.Fatal(err)
	}
	for name, value := range headers {
		request.Header.Set(name, value)
	}
	answer, err := http.DefaultClient.Do(request)
	if err != nil {
		log.Fatal(err)
	}
	defer answer.Body.Close()
	text, err := io.ReadAll(answer.Body)
	if err != nil {
		log.Fatal(err)
	}
	if answer.StatusCode >= 300 {
		log.Fatalf("%s: %s", answer.Status, text)
	}
	if out != nil && len(text) > 0 {
		if err := json.Unmarshal(text, out); err != nil {
			log.Fatal(err)
		}
	}
	return answer.StatusCode
}

func publish(route, id, delay, text string) {
	var answer struct{ ID, Due string }
	call("POST", "/v1/routes/"+url.PathEscape(route)+"/jobs", text, map[string]string{
		"Delay-Id": id, "Deliver-After": delay, "Content-Type": "text/plain"}, &answer)
	fmt.Println(answer.ID, "is due at", answer.Due)
}

func cancel(route, id string) {
	call("DELETE", "/v1/routes/"+url.PathEscape(route)+"/jobs/"+url.PathEscape(id), "", nil, nil)
	fmt.Println(id, "is cancelled")
}

func pull(queue string) {
	var answer struct {
		Jobs []struct{ ID, Token, Payload string }
	}
	at := "/v1/queues/" + url.PathEscape(queue)
	if call("POST", at+"/pull?wait=30s", "", nil, &answer) == http.StatusNoContent {
		return // no job became due in time
	}
	for _, job := range answer.Jobs {
		fmt.Println(job.Payload) // process the job here, then acknowledge it
		call("DELETE", at+"/jobs/"+url.PathEscape(job.ID)+"?token="+job.Token, "", nil, nil)
	}
}

// isGenuine verifies a callback as https://www.standardwebhooks.com describes it.
func isGenuine(secret string, headers http.Header, body []byte) bool {
	sent, err := strconv.ParseInt(headers.Get("webhook-timestamp"), 10, 64)
	if err != nil || time.Since(time.Unix(sent, 0)).Abs() > maxAge {
		return false
	}
	key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
	if err != nil {
		return false
	}
	digest := hmac.New(sha256.New, key)
	fmt.Fprintf(digest, "%s.%d.%s", headers.Get("webhook-id"), sent, body)
	expected := "v1," + base64.StdEncoding.EncodeToString(digest.Sum(nil))
	for _, one := range strings.Fields(headers.Get("webhook-signature")) {
		if hmac.Equal([]byte(expected), []byte(one)) {
			return true
		}
	}
	return false
}

func receive(port, secret string) {
	done := make(chan bool)
	http.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil && isGenuine(secret, r.Header, body) {
			fmt.Println(string(body))
			w.WriteHeader(http.StatusNoContent)
		} else {
			fmt.Println("the signature is wrong")
			w.WriteHeader(http.StatusUnauthorized)
		}
		go func() { done <- true }()
	})
	server := &http.Server{Addr: "127.0.0.1:" + port}
	go func() { log.Println(server.ListenAndServe()) }()
	<-done
	server.Shutdown(context.Background())
}

func main() {
	arg := os.Args[1:]
	switch {
	case len(arg) == 5 && arg[0] == "publish":
		publish(arg[1], arg[2], arg[3], arg[4])
	case len(arg) == 3 && arg[0] == "cancel":
		cancel(arg[1], arg[2])
	case len(arg) == 2 && arg[0] == "pull":
		pull(arg[1])
	case len(arg) == 3 && arg[0] == "receive":
		receive(arg[1], arg[2])
	default:
		log.Fatal("see the comment at the beginning of the file")
	}
}
