// SPDX-License-Identifier: BSD-2-Clause

// Publishes a delayed message over MQTT 5:
//
//	mqtt HOST PORT TOPIC ID DELAY TEXT
package main

import (
	"context"
	"log"
	"net"
	"os"

	"github.com/eclipse/paho.golang/paho"
)

func main() {
	if len(os.Args) != 7 {
		log.Fatal("usage: mqtt HOST PORT TOPIC ID DELAY TEXT")
	}
	ctx := context.Background()
	conn, err := net.Dial("tcp", net.JoinHostPort(os.Args[1], os.Args[2]))
	if err != nil {
		log.Fatal(err)
	}
	client := paho.NewClient(paho.ClientConfig{Conn: conn})
	if _, err := client.Connect(ctx, &paho.Connect{KeepAlive: 30, CleanStart: true}); err != nil {
		log.Fatal(err)
	}
	properties := &paho.PublishProperties{}
	properties.User.Add("delay-id", os.Args[4]).Add("deliver-after", os.Args[5])
	message := &paho.Publish{QoS: 1, Topic: os.Args[3], Properties: properties, Payload: []byte(os.Args[6])}
	if _, err := client.Publish(ctx, message); err != nil {
		log.Fatal(err)
	}
	if err := client.Disconnect(&paho.Disconnect{}); err != nil {
		log.Fatal(err)
	}
}
