// What clickhouse-go makes of the embedded server over HTTP: go run . HOST:PORT PASSWORD COMPRESSION. Prints a line for each scenario;
// the first that fails ends it.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"sync"
	"time"

	"github.com/ClickHouse/clickhouse-go/v2"
	"github.com/ClickHouse/clickhouse-go/v2/lib/driver"
)

var methods = map[string]clickhouse.CompressionMethod{
	"none": clickhouse.CompressionNone, "lz4": clickhouse.CompressionLZ4, "gzip": clickhouse.CompressionGZIP,
	"deflate": clickhouse.CompressionDeflate, "br": clickhouse.CompressionBrotli,
}

func main() {
	ctx := context.Background()
	connection := connect(os.Args[2], "default")
	check("ping", connection.Ping(ctx))
	done("ping")
	check("create", connection.Exec(ctx, "CREATE DATABASE "+database()))

	connection = connect(os.Args[2], database())
	check("create", connection.Exec(ctx, `CREATE TABLE "words" (id UInt64, word String, at DateTime64(9), tags Map(LowCardinality(String), String),
		list Array(UInt32), maybe Nullable(Float64)) ENGINE = MergeTree ORDER BY id`))
	done("database of its own")

	var group sync.WaitGroup
	for writer := range 4 {
		group.Add(1)
		go func() {
			defer group.Done()
			insert(ctx, connection, writer)
		}()
	}
	group.Wait()
	done("four inserts at once")

	var count, sum uint64
	var halves float64
	check("sums", connection.QueryRow(ctx, "SELECT count(), sum(id), sum(maybe) FROM words").Scan(&count, &sum, &halves))
	expect("sums", fmt.Sprint(count, sum, halves), fmt.Sprint(rows, rows*(rows-1)/2, float64(rows*(rows-1))/4))
	done("sums")

	answer, err := connection.Query(ctx, "SELECT id, word, at, tags, list FROM words WHERE id >= ? ORDER BY id", 10)
	check("query", err)
	read := 10
	for ; answer.Next(); read++ {
		var id uint64
		var word string
		var at time.Time
		var tags map[string]string
		var list []uint32
		check("scan", answer.Scan(&id, &word, &at, &tags, &list))
		expect("row", fmt.Sprint(id, word, at.UnixNano(), tags, list), fmt.Sprint(read, wordOf(read), int64(read)*1e9+7, tagsOf(read), listOf(read)))
	}
	check("query", answer.Err())
	expect("rows read", fmt.Sprint(read), fmt.Sprint(rows))
	done("every row as it was written")

	text := "a 'quote' and Zürich"
	var back string
	parameters := clickhouse.Context(ctx, clickhouse.WithParameters(clickhouse.Parameters{"text": text}))
	check("parameter", connection.QueryRow(parameters, "SELECT {text:String}").Scan(&back))
	expect("parameter", back, text)
	done("parameter")

	// Exec() cannot read errors with LZ4, whoever serves it: it does not ask for blocks, but expects them.
	expectError("mistake", connection.QueryRow(ctx, "SELECT nonsense").Err(), "UNKNOWN_IDENTIFIER")
	expectError("unknown table", connection.QueryRow(ctx, "SELECT * FROM nowhere").Err(), "UNKNOWN_TABLE")
	done("mistakes")
	expectError("password", connect("guess", "default").Ping(ctx), "AUTHENTICATION_FAILED")
	done("password")
	check("close", connection.Close())
	done("close")
}

const rows = 20_000

func insert(ctx context.Context, connection driver.Conn, writer int) {
	batch, err := connection.PrepareBatch(ctx, `INSERT INTO "words"`)
	check("prepare", err)
	for i := writer; i < rows; i += 4 {
		half := float64(i) / 2
		check("append", batch.Append(uint64(i), wordOf(i), time.Unix(int64(i), 7), tagsOf(i), listOf(i), &half))
	}
	check("send", batch.Send())
}

func wordOf(i int) string            { return fmt.Sprintf("word %d", i) }
func tagsOf(i int) map[string]string { return map[string]string{"k": wordOf(i)} }
func listOf(i int) []uint32          { return []uint32{1, uint32(i)} }
func database() string               { return "go_" + os.Args[3] }
func done(what string)               { fmt.Println("ok", what) }

func connect(password, database string) driver.Conn {
	connection, err := clickhouse.Open(&clickhouse.Options{
		Protocol:    clickhouse.HTTP,
		Addr:        []string{os.Args[1]},
		Auth:        clickhouse.Auth{Database: database, Username: "default", Password: password},
		Compression: &clickhouse.Compression{Method: methods[os.Args[3]]},
		Settings:    clickhouse.Settings{"max_execution_time": 60, "async_insert": 1},
	})
	check("open", err)
	return connection
}

func check(what string, err error) {
	if err != nil {
		fmt.Printf("failed %s: %v\n", what, err)
		os.Exit(1)
	}
}

func expectError(what string, err error, name string) {
	if err == nil || !strings.Contains(err.Error(), name) {
		check(what, fmt.Errorf("%v instead of %s", err, name))
	}
}

func expect(what, got, wanted string) {
	if got != wanted {
		check(what, fmt.Errorf("%s instead of %s", got, wanted))
	}
}
