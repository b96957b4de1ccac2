// Reads inputs as Go's standard library does: one JSON object per line, one reading or "refused" per line.
package main

import (
	"bufio"
	"bytes"
	"crypto/tls"
	"encoding/base64"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"net/url"
	"os"
	"strings"
)

type input struct{ Kind, Input string }

func bare(host string) string { return strings.TrimSuffix(strings.ToLower(host), ".") }

func withPort(host, port string) string {
	if port == "" {
		port = "80"
	}
	if address, err := netip.ParseAddr(host); err == nil {
		host = address.String()
		if address.Is4In6() {
			b := address.As16()
			host = fmt.Sprintf("::ffff:%x:%x", uint16(b[12])<<8|uint16(b[13]), uint16(b[14])<<8|uint16(b[15]))
		}
	}
	return bare(host) + ":" + port
}

func authority(text string) (string, error) {
	host, port, err := net.SplitHostPort(text)
	if err != nil {
		return "", err
	}
	parsed, err := url.Parse("http://" + text + "/")
	if err != nil {
		return "", err
	}
	if parsed.Hostname() != host || parsed.Port() != port {
		return "", fmt.Errorf("Go itself has two readings")
	}
	return withPort(host, port), nil
}

func absolute(text string) (string, error) {
	request, err := http.ReadRequest(bufio.NewReader(strings.NewReader("GET " + text + " HTTP/1.1\r\nHost: x\r\n\r\n")))
	if err != nil {
		return "", err
	}
	path := request.URL.EscapedPath()
	if path == "" {
		path = "/"
	}
	if request.URL.RawQuery != "" || request.URL.ForceQuery {
		path += "?" + request.URL.RawQuery
	}
	return withPort(request.URL.Hostname(), request.URL.Port()) + " " + path, nil
}

// hello returns the server name that a TLS server of Go sees.
func hello(data []byte) (string, error) {
	client, server := net.Pipe()
	name, seen := "", false
	done := make(chan struct{})
	go func() {
		defer close(done)
		config := &tls.Config{GetConfigForClient: func(info *tls.ClientHelloInfo) (*tls.Config, error) {
			name, seen = info.ServerName, true
			return nil, fmt.Errorf("enough")
		}}
		tls.Server(server, config).Handshake()
		server.Close()
	}()
	go func() {
		client.Write(data)
		buffer := make([]byte, 1024)
		for {
			if _, err := client.Read(buffer); err != nil {
				return
			}
		}
	}()
	<-done
	client.Close()
	if !seen {
		return "", fmt.Errorf("no hello")
	}
	return name, nil
}

func request(data []byte) (string, error) {
	reader := bufio.NewReader(bytes.NewReader(data))
	read, err := http.ReadRequest(reader)
	if err != nil {
		return "", err
	}
	if read.Host != "a.example.com" || reader.Buffered() != 0 {
		return "", fmt.Errorf("another host or a second request: %q", read.Host)
	}
	upgrade := ""
	if read.Header.Get("Upgrade") != "" {
		upgrade = " upgrade"
	}
	return fmt.Sprintf("%s %s %d%s", read.Method, read.RequestURI, read.ContentLength, upgrade), nil
}

func main() {
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(make([]byte, 1<<20), 1<<20)
	out := bufio.NewWriter(os.Stdout)
	defer out.Flush()
	for lines.Scan() {
		var one input
		if err := json.Unmarshal(lines.Bytes(), &one); err != nil {
			panic(err)
		}
		data, err := base64.StdEncoding.DecodeString(one.Input)
		if err != nil {
			panic(err)
		}
		reading := ""
		switch one.Kind {
		case "authority":
			reading, err = authority(string(data))
		case "absolute":
			reading, err = absolute(string(data))
		case "hello":
			reading, err = hello(data)
		case "request":
			reading, err = request(data)
		}
		answer := map[string]any{"reading": reading, "refused": err != nil}
		if err != nil {
			answer["reason"] = err.Error()
		}
		text, _ := json.Marshal(answer)
		out.Write(text)
		out.WriteByte('\n')
	}
}
