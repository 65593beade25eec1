// The scenarios with pgx, the driver of Grafana's data source: simple protocol, and prepared
// statements in text and in binary.
package main

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgconn"
	"github.com/jackc/pgx/v5/pgproto3"
	"github.com/jackc/pgx/v5/pgtype"
)

type scenario struct {
	Name       string
	Does       string
	SQL        string
	Parameters []map[string]any
}

var (
	background             = context.Background()
	plain, tls, tlsRefused string
	wrongPassword          string
)

func main() {
	port, plainPort, password, certificate := os.Args[1], os.Args[2], os.Args[3], os.Args[4]
	login := "host=localhost dbname=weir user=carl "
	plain = login + "sslmode=disable password=" + password + " port=" + port
	tls = login + "sslmode=verify-full sslrootcert=" + certificate + " password=" + password + " port=" + port
	tlsRefused = login + "sslmode=require password=" + password + " port=" + plainPort
	wrongPassword = login + "sslmode=disable password=sesam port=" + port
	text, err := os.ReadFile(os.Getenv("WEIR_SCENARIOS"))
	check(err)
	var scenarios []scenario
	check(json.Unmarshal(text, &scenarios))
	shared, err := pgx.Connect(background, plain)
	check(err)
	modes := map[string]pgx.QueryExecMode{
		"simple":    pgx.QueryExecModeSimpleProtocol,
		"text":      pgx.QueryExecModeExec,
		"binary":    pgx.QueryExecModeCacheStatement,
		"described": pgx.QueryExecModeDescribeExec,
	}
	for _, each := range scenarios {
		if run, isOnce := once[each.Does]; isOnce {
			report(each, "once", func() (any, error) { return run(each) })
		} else if each.Does == "" || each.Does == "sum" {
			for name, mode := range modes {
				report(each, name, func() (any, error) { return rows(shared, each, mode) })
			}
		}
	}
}

var once = map[string]func(scenario) (any, error){
	"connect":        func(scenario) (any, error) { return encryption(plain) },
	"connect_tls":    func(scenario) (any, error) { return encryption(tls) },
	"tls_refused":    refused,
	"wrong_password": func(scenario) (any, error) { _, err := encryption(wrongPassword); return state(err), nil },
	"empty":          empty,
	"statements":     statements,
	"suspend":        suspend,
	"cancel":         cancel,
	"recover":        recovered,
	"transaction":    transaction,
	"pipeline":       pipeline,
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

func report(each scenario, mode string, run func() (any, error)) {
	line := map[string]any{"scenario": each.Name, "mode": mode}
	if result, err := run(); err != nil {
		line["error"] = err.Error()
	} else {
		line["result"] = result
	}
	text, err := json.Marshal(line)
	check(err)
	fmt.Println(string(text))
}

// The SQLSTATE of an error.
func state(err error) string {
	var refusal *pgconn.PgError
	if errors.As(err, &refusal) {
		return refusal.Code
	}
	return fmt.Sprint(err)
}

// A value as the scenarios write it.
func rendered(value any) any {
	switch value := value.(type) {
	case time.Time:
		if value.Hour()+value.Minute()+value.Second()+value.Nanosecond() == 0 {
			return value.Format(time.DateOnly)
		}
		return value.UTC().Format("2006-01-02T15:04:05.000Z")
	case []byte:
		return hex.EncodeToString(value)
	case pgtype.Numeric:
		text, err := value.Value()
		check(err)
		return text
	case []any:
		for at := range value {
			value[at] = rendered(value[at])
		}
		return value
	}
	return value
}

func arguments(each scenario) []any {
	var values []any
	for _, parameter := range each.Parameters {
		for kind, value := range parameter {
			switch written := value.(type) {
			case string:
				if kind == "timestamptz" {
					instant, err := time.Parse(time.RFC3339, written)
					check(err)
					value = instant
				}
			case float64:
				if kind == "int8" {
					value = int64(written)
				}
			}
			values = append(values, value)
		}
	}
	return values
}

func rows(connection *pgx.Conn, each scenario, mode pgx.QueryExecMode) (any, error) {
	found, err := connection.Query(background, each.SQL, append([]any{mode}, arguments(each)...)...)
	if err != nil {
		return nil, err
	}
	all, count, sum := [][]any{}, 0, int64(0)
	for found.Next() {
		values, err := found.Values()
		if err != nil {
			return nil, err
		}
		if count++; each.Does == "sum" {
			sum += values[0].(int64)
			continue
		}
		all = append(all, rendered(values).([]any))
	}
	if each.Does == "sum" {
		return []int64{int64(count), sum}, found.Err()
	}
	return all, found.Err()
}

func one(connection *pgx.Conn) any {
	var value int64
	if err := connection.QueryRow(background, "select 1").Scan(&value); err != nil {
		return err.Error()
	}
	return value
}

func encryption(place string) (any, error) {
	connection, err := pgx.Connect(background, place)
	if err != nil {
		return nil, err
	}
	defer connection.Close(background)
	if connection.PgConn().Conn().LocalAddr() != nil && strings.Contains(fmt.Sprintf("%T", connection.PgConn().Conn()), "tls") {
		return "encrypted", nil
	}
	return "plain", nil
}

func refused(scenario) (any, error) {
	found, err := encryption(tlsRefused)
	if err != nil && strings.Contains(err.Error(), "server refused TLS") {
		return "refused", nil
	}
	return found, err
}

func alone(run func(*pgx.Conn) (any, error)) (any, error) {
	connection, err := pgx.Connect(background, plain)
	if err != nil {
		return nil, err
	}
	defer connection.Close(background)
	return run(connection)
}

func empty(scenario) (any, error) {
	return alone(func(connection *pgx.Conn) (any, error) {
		for _, sql := range []string{"", ";", " -- nothing"} {
			for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeExec} {
				if _, err := connection.Exec(background, sql, mode); err != nil {
					return nil, err
				}
			}
		}
		if one(connection) == int64(1) {
			return "usable", nil
		}
		return "broken", nil
	})
}

func statements(each scenario) (any, error) {
	return alone(func(connection *pgx.Conn) (any, error) {
		results, err := connection.PgConn().Exec(background, each.SQL).ReadAll()
		found := []any{}
		for _, result := range results {
			var value any = string(result.Rows[0][0])
			var number int
			if _, err := fmt.Sscanf(value.(string), "%d", &number); err == nil {
				value = number
			}
			found = append(found, value)
		}
		return found, err
	})
}

// Reads to the end in parts of 1,000 rows. pgx has no cursors, so this sends the messages itself.
func suspend(each scenario) (any, error) {
	return alone(func(connection *pgx.Conn) (any, error) {
		hijacked, err := connection.PgConn().Hijack()
		if err != nil {
			return nil, err
		}
		frontend := hijacked.Frontend
		frontend.Send(&pgproto3.Parse{Query: each.SQL})
		frontend.Send(&pgproto3.Bind{})
		frontend.Send(&pgproto3.Execute{MaxRows: 1000})
		frontend.Send(&pgproto3.Flush{})
		count, sum := 0, 0
		for {
			if err := frontend.Flush(); err != nil {
				return nil, err
			}
			message, err := frontend.Receive()
			if err != nil {
				return nil, err
			}
			switch message := message.(type) {
			case *pgproto3.DataRow:
				number := 0
				_, err = fmt.Sscanf(string(message.Values[0]), "%d", &number)
				check(err)
				count, sum = count+1, sum+number
			case *pgproto3.PortalSuspended:
				frontend.Send(&pgproto3.Execute{MaxRows: 1000})
				frontend.Send(&pgproto3.Flush{})
			case *pgproto3.CommandComplete:
				frontend.Send(&pgproto3.Sync{})
			case *pgproto3.ErrorResponse:
				return nil, errors.New(message.Message)
			case *pgproto3.ReadyForQuery:
				rebuilt, err := pgconn.Construct(hijacked)
				if err != nil {
					return nil, err
				}
				results, err := rebuilt.Exec(background, "select 1").ReadAll()
				if err != nil {
					return nil, err
				}
				return []any{count, sum, len(results[0].Rows)}, nil
			}
		}
	})
}

func cancel(each scenario) (any, error) {
	return alone(func(connection *pgx.Conn) (any, error) {
		time.AfterFunc(300*time.Millisecond, func() { check(connection.PgConn().CancelRequest(background)) })
		_, err := connection.Exec(background, each.SQL)
		return []any{state(err), one(connection)}, nil
	})
}

func recovered(each scenario) (any, error) {
	return alone(func(connection *pgx.Conn) (any, error) {
		found := []any{}
		for _, mode := range []pgx.QueryExecMode{pgx.QueryExecModeSimpleProtocol, pgx.QueryExecModeCacheStatement} {
			_, err := connection.Exec(background, each.SQL, mode)
			found = append(found, state(err), one(connection))
		}
		return found, nil
	})
}

func transaction(each scenario) (any, error) {
	return alone(func(connection *pgx.Conn) (any, error) {
		begun, err := connection.Begin(background)
		if err != nil {
			return nil, err
		}
		found := []any{one(connection)}
		for _, sql := range []string{each.SQL, "select 1"} {
			_, err = connection.Exec(background, sql)
			found = append(found, state(err))
		}
		if err := begun.Rollback(background); err != nil {
			return nil, err
		}
		return append(found, one(connection)), nil
	})
}

func pipeline(each scenario) (any, error) {
	return alone(func(connection *pgx.Conn) (any, error) {
		batch := &pgx.Batch{}
		for number := range 10 {
			batch.Queue(each.SQL, number)
		}
		results := connection.SendBatch(background, batch)
		defer results.Close()
		found := []int64{}
		for range 10 {
			var value int64
			if err := results.QueryRow().Scan(&value); err != nil {
				return nil, err
			}
			found = append(found, value)
		}
		return found, nil
	})
}
