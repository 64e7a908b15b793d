// What grpc-go's client makes of a server: go run . host:port, against the methods of pipeline/grpc/peers.test.ts.
// Prints a line for each scenario; exit code 1 when one fails.
package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/encoding"
	"google.golang.org/grpc/encoding/gzip"
	"google.golang.org/grpc/keepalive"
	"google.golang.org/grpc/metadata"
	"google.golang.org/grpc/status"
)

// Messages are bytes.
type raw struct{}

func (raw) Name() string                    { return "proto" }
func (raw) Marshal(v any) ([]byte, error)   { return *v.(*[]byte), nil }
func (raw) Unmarshal(b []byte, v any) error { *v.(*[]byte) = append([]byte{}, b...); return nil }

func connect() *grpc.ClientConn {
	conn, err := grpc.NewClient(os.Args[1],
		grpc.WithTransportCredentials(insecure.NewCredentials()),
		grpc.WithDefaultCallOptions(grpc.ForceCodec(raw{}), grpc.MaxCallRecvMsgSize(1<<30)),
		grpc.WithKeepaliveParams(keepalive.ClientParameters{Time: 10 * time.Second, Timeout: time.Second, PermitWithoutStream: true}))
	if err != nil {
		panic(err)
	}
	return conn
}

func call(ctx context.Context, on *grpc.ClientConn, method string, message []byte, options ...grpc.CallOption) ([]byte, error) {
	var answer []byte
	err := on.Invoke(ctx, "/test.Echo/"+method, &message, &answer, options...)
	return answer, err
}

func echo(on *grpc.ClientConn, message []byte, options ...grpc.CallOption) error {
	ctx, cancel := context.WithTimeout(context.Background(), 20*time.Second)
	defer cancel()
	answer, err := call(ctx, on, "Call", message, options...)
	if err == nil && !bytes.Equal(answer, message) {
		return fmt.Errorf("%d bytes came back of %d", len(answer), len(message))
	}
	return err
}

func expect(on *grpc.ClientConn, err error, code codes.Code) error {
	if status.Code(err) != code {
		return fmt.Errorf("%v instead of %v", err, code)
	}
	return echo(on, []byte("after"))
}

func sizes(on *grpc.ClientConn) error {
	for _, size := range []int{0, 1, 65535, 1000000, 5000000} {
		if err := echo(on, bytes.Repeat([]byte("x"), size)); err != nil {
			return err
		}
	}
	return nil
}

func gzipped(on *grpc.ClientConn) error {
	for _, size := range []int{1, 100000, 2000000} {
		if err := echo(on, bytes.Repeat([]byte("x"), size), grpc.UseCompressor(gzip.Name)); err != nil {
			return err
		}
	}
	return nil
}

func manyAtOnce(on *grpc.ClientConn) error {
	var group sync.WaitGroup
	errors := make(chan error, 5000)
	for i := range 5000 {
		group.Add(1)
		go func() {
			defer group.Done()
			if err := echo(on, bytes.Repeat([]byte{byte(i)}, 1+i*211%30000)); err != nil {
				errors <- err
			}
		}()
	}
	group.Wait()
	close(errors)
	return <-errors
}

func withMetadata(on *grpc.ClientConn) error {
	ctx := metadata.AppendToOutgoingContext(context.Background(), "x-name", "value", "authorization", "Bearer "+strings.Repeat("a", 3000))
	answer, err := call(ctx, on, "Metadata", nil)
	if err == nil && string(answer) != "value" {
		return fmt.Errorf("%q", answer)
	}
	return err
}

func failure(on *grpc.ClientConn) error {
	_, err := call(context.Background(), on, "Fail", nil)
	if status.Convert(err).Message() != "busy: 100%" {
		return fmt.Errorf("%v", err)
	}
	return expect(on, err, codes.Unavailable)
}

func unknownMethod(on *grpc.ClientConn) error {
	_, err := call(context.Background(), on, "None", nil)
	return expect(on, err, codes.Unimplemented)
}

func unknownEncoding(on *grpc.ClientConn) error {
	return expect(on, echo(on, []byte("x"), grpc.UseCompressor(snail{}.Name())), codes.Unimplemented)
}

func tooLarge(on *grpc.ClientConn) error {
	return expect(on, echo(on, make([]byte, 9000000)), codes.ResourceExhausted)
}

func deadline(on *grpc.ClientConn) error {
	ctx, cancel := context.WithTimeout(context.Background(), 200*time.Millisecond)
	defer cancel()
	_, err := call(ctx, on, "Sleep", nil)
	return expect(on, err, codes.DeadlineExceeded)
}

func cancelled(on *grpc.ClientConn) error {
	ctx, cancel := context.WithCancel(context.Background())
	time.AfterFunc(100*time.Millisecond, cancel)
	_, err := call(ctx, on, "Sleep", nil)
	return expect(on, err, codes.Canceled)
}

func disconnect(on *grpc.ClientConn) error {
	other := connect()
	go call(context.Background(), other, "Sleep", nil)
	time.Sleep(100 * time.Millisecond)
	other.Close()
	return echo(on, []byte("after"))
}

// An encoding that nobody else knows.
type snail struct{ encoding.Compressor }

func (snail) Name() string { return "x-snail" }

func main() {
	encoding.RegisterCompressor(snail{encoding.GetCompressor(gzip.Name)})
	scenarios := []struct {
		name string
		run  func(*grpc.ClientConn) error
	}{
		{"sizes", sizes}, {"gzip", gzipped}, {"many_at_once", manyAtOnce}, {"metadata", withMetadata}, {"failure", failure},
		{"unknown_method", unknownMethod}, {"unknown_encoding", unknownEncoding}, {"too_large", tooLarge}, {"deadline", deadline},
		{"cancel", cancelled}, {"disconnect", disconnect},
	}
	failed := 0
	for _, scenario := range scenarios {
		on := connect()
		if err := scenario.run(on); err != nil {
			failed = 1
			fmt.Printf("failed %s: %v\n", scenario.name, err)
		} else {
			fmt.Printf("ok %s\n", scenario.name)
		}
		on.Close()
	}
	os.Exit(failed)
}
