// A broker of Kafka for tests, and a client that reads what it holds.
//
//	kafka_broker serve PORT FOLDER TOPIC PARTITIONS    serves until it is killed; keeps records in FOLDER
//	kafka_broker read ADDRESS TOPIC COUNT              prints at least COUNT records, a line of JSON each
//
// With the variables KAFKA_USER and KAFKA_PASSWORD, users prove themselves by SCRAM-SHA-512; with
// KAFKA_CERTIFICATE and KAFKA_KEY, the broker speaks TLS.
package main

import (
	"bytes"
	"context"
	"crypto/tls"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"log"
	"net"
	"os"
	"os/signal"
	"strconv"
	"syscall"
	"time"

	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

type record struct {
	Partition int32  `json:"partition"`
	Key       string `json:"key"`
	Value     string `json:"value"`
}

func main() {
	var err error
	switch {
	case len(os.Args) == 6 && os.Args[1] == "serve":
		err = serve(os.Args[2], os.Args[3], os.Args[4], os.Args[5])
	case len(os.Args) == 5 && os.Args[1] == "read":
		err = read(os.Args[2], os.Args[3], os.Args[4])
	default:
		err = fmt.Errorf("serve PORT FOLDER TOPIC PARTITIONS, or read ADDRESS TOPIC COUNT")
	}
	if err != nil {
		log.Fatal(err)
	}
}

func serve(port, folder, topic, partitions string) error {
	number, err := strconv.Atoi(port)
	if err != nil {
		return err
	}
	count, err := strconv.Atoi(partitions)
	if err != nil {
		return err
	}
	options := []kfake.Opt{
		kfake.NumBrokers(1),
		kfake.Ports(number),
		kfake.DataDir(folder),
		kfake.SyncWrites(),
		kfake.SeedTopics(int32(count), topic),
	}
	if user := os.Getenv("KAFKA_USER"); user != "" {
		proof := kfake.Superuser("SCRAM-SHA-512", user, os.Getenv("KAFKA_PASSWORD"))
		options = append(options, kfake.EnableSASL(), proof)
	}
	var secure *tls.Config
	if file := os.Getenv("KAFKA_CERTIFICATE"); file != "" {
		pair, err := tls.LoadX509KeyPair(file, os.Getenv("KAFKA_KEY"))
		if err != nil {
			return err
		}
		secure = &tls.Config{Certificates: []tls.Certificate{pair}}
	}
	options = append(options, kfake.ListenFn(func(network, address string) (net.Listener, error) {
		inner, err := net.Listen(network, address)
		if err == nil && secure != nil {
			inner = tls.NewListener(inner, secure)
		}
		return listener{inner}, err
	}))
	cluster, err := kfake.NewCluster(options...)
	if err != nil {
		return err
	}
	fmt.Println("ready")
	end := make(chan os.Signal, 1)
	signal.Notify(end, syscall.SIGTERM, syscall.SIGINT)
	<-end
	cluster.Close()
	return nil
}

func read(address, topic, count string) error {
	wanted, err := strconv.Atoi(count)
	if err != nil {
		return err
	}
	options := []kgo.Opt{
		kgo.SeedBrokers(address),
		kgo.ConsumeTopics(topic),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	if user := os.Getenv("KAFKA_USER"); user != "" {
		proof := scram.Auth{User: user, Pass: os.Getenv("KAFKA_PASSWORD")}
		options = append(options, kgo.SASL(proof.AsSha512Mechanism()))
	}
	if os.Getenv("KAFKA_CERTIFICATE") != "" {
		// The test is about the certificate that the server sees, not this reader.
		options = append(options, kgo.DialTLSConfig(&tls.Config{InsecureSkipVerify: true}))
	}
	client, err := kgo.NewClient(options...)
	if err != nil {
		return err
	}
	defer client.Close()
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Second)
	defer cancel()
	lines := json.NewEncoder(os.Stdout)
	for seen := 0; seen < wanted && ctx.Err() == nil; {
		client.PollFetches(ctx).EachRecord(func(one *kgo.Record) {
			seen++
			_ = lines.Encode(record{one.Partition, string(one.Key), string(one.Value)})
		})
	}
	return nil
}

// A listener whose connections tell clients which ways to prove a user there are, as brokers do: kfake
// tells it only those that ask for an unknown one.
type listener struct{ net.Listener }

func (l listener) Accept() (net.Conn, error) {
	inner, err := l.Listener.Accept()
	return &connection{Conn: inner}, err
}

type connection struct{ net.Conn }

// Write completes an answer without error whose list is empty: length, number, code, length of the list.
func (c *connection) Write(answer []byte) (int, error) {
	if len(answer) != 14 || !bytes.Equal(answer[8:], make([]byte, 6)) {
		return c.Conn.Write(answer)
	}
	full := bytes.Clone(answer[:10])
	ways := []string{"PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"}
	full = binary.BigEndian.AppendUint32(full, uint32(len(ways)))
	for _, way := range ways {
		full = binary.BigEndian.AppendUint16(full, uint16(len(way)))
		full = append(full, way...)
	}
	binary.BigEndian.PutUint32(full, uint32(len(full)-4))
	if _, err := c.Conn.Write(full); err != nil {
		return 0, err
	}
	return len(answer), nil
}
