// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package main

import (
	"bytes"
	"context"
	"crypto/hmac"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"sync/atomic"
	"time"
)

// Siwatch asks siwatch's HTTP door. Goroutines may share it.
type Siwatch struct {
	URL, Token string
	HTTP       *http.Client
	awayUntil  atomic.Int64 // In milliseconds since 1970; 0 if siwatch has answered.
}

// ErrAway is the answer to a question while siwatch is away. One question in five seconds finds out whether it is back.
var ErrAway = errors.New("siwatch is away")

// A SignIn has no User while its outcome is "waiting". Keep SignedInAt with the session.
type SignIn struct {
	SignedInAt int64 `json:"signed_in_at"`
	User       *struct {
		UserID string `json:"user_id"`
	} `json:"user"`
}

// A Deletion has the receipt in Tokens once its outcome is "done".
type Deletion struct {
	ID      string            `json:"id"`
	Outcome string            `json:"outcome"`
	Tokens  []json.RawMessage `json:"tokens"`
}

// A Problem is an answer of siwatch that is none of 200 and 202. Reason says why a sign-in was rejected.
type Problem struct {
	Status int    `json:"status"`
	Type   string `json:"type"`
	Title  string `json:"title"`
	Detail string `json:"detail"`
	Reason string `json:"reason"`
}

// IsTemporary tells whether err is none of a mistake: siwatch is away, or too busy.
func IsTemporary(err error) bool {
	var problem *Problem
	return !errors.As(err, &problem) || problem.Status == http.StatusTooManyRequests || problem.Status >= 500
}

func (p *Problem) Error() string {
	return fmt.Sprintf("siwatch: %d: %s: %s", p.Status, p.Title, p.Detail)
}

// SignIn hands over the code that the device brought. The key makes the request safe to repeat: a new random one for each sign-in, never one
// that is made of the code, because then a thief of the code gets the answer of the first.
func (s *Siwatch) SignIn(ctx context.Context, key, clientID, code, nonce string) (SignIn, error) {
	body := map[string]any{"client_id": clientID, "code": code, "wait": 10}
	if nonce != "" {
		body["nonce"] = nonce
	}
	var signIn SignIn
	err := s.ask(ctx, http.MethodPost, "/v1/sign-ins", key, body, &signIn)
	return signIn, err
}

// EndsSession tells whether the session that began at signedInAt is to end. Gives up after two seconds, and from then on at once.
func (s *Siwatch) EndsSession(ctx context.Context, userID string, signedInAt int64) (bool, error) {
	var answer struct {
		EndsSession bool `json:"ends_session"`
	}
	soon := func() int64 { return time.Now().Add(5 * time.Second).UnixMilli() }
	if until := s.awayUntil.Load(); time.Now().UnixMilli() < until {
		return false, ErrAway
	} else if until > 0 && !s.awayUntil.CompareAndSwap(until, soon()) {
		return false, ErrAway
	}
	within, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	path := fmt.Sprintf("/v1/users/%s/ends-session?signed_in_at=%d", url.PathEscape(userID), signedInAt)
	err := s.ask(within, http.MethodGet, path, "", nil, &answer)
	switch {
	case err == nil || !IsTemporary(err):
		s.awayUntil.Store(0)
	case ctx.Err() == nil: // The browser is still there, so it is siwatch that is not.
		s.awayUntil.Store(soon())
	}
	return answer.EndsSession, err
}

// Delete tells that a user has deleted the account.
func (s *Siwatch) Delete(ctx context.Context, key, clientID, userID string) (Deletion, error) {
	var deletion Deletion
	err := s.ask(ctx, http.MethodPost, "/v1/deletions", key, map[string]any{"client_id": clientID, "user_id": userID}, &deletion)
	return deletion, err
}

// Deletion tells how far a deletion is.
func (s *Siwatch) Deletion(ctx context.Context, id string) (Deletion, error) {
	var deletion Deletion
	err := s.ask(ctx, http.MethodGet, "/v1/deletions/"+id, "", nil, &deletion)
	return deletion, err
}

// Notify hands over what Apple has posted.
func (s *Siwatch) Notify(ctx context.Context, body []byte) error {
	return s.ask(ctx, http.MethodPost, "/v1/notifications", "", json.RawMessage(body), &struct{}{})
}

// ask tries three times in all, with the same key.
func (s *Siwatch) ask(ctx context.Context, method, path, key string, body, answer any) error {
	var content []byte
	switch body := body.(type) {
	case nil:
	case json.RawMessage:
		content = body
	default:
		var err error
		if content, err = json.Marshal(body); err != nil {
			return err
		}
	}
	for try := 1; ; try++ {
		err := s.try(ctx, method, path, key, content, answer)
		if err == nil || !IsTemporary(err) || try == 3 {
			return err
		}
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-time.After(time.Duration(try) * time.Second / 2):
		}
	}
}

func (s *Siwatch) try(ctx context.Context, method, path, key string, content []byte, answer any) error {
	request, err := http.NewRequestWithContext(ctx, method, s.URL+path, bytes.NewReader(content))
	if err != nil {
		return err
	}
	request.Header.Set("Authorization", "Bearer "+s.Token)
	if content != nil {
		request.Header.Set("Content-Type", "application/json")
	}
	if key != "" {
		request.Header.Set("Idempotency-Key", key)
	}
	response, err := s.HTTP.Do(request)
	if err != nil {
		return err
	}
	defer response.Body.Close()
	text, err := io.ReadAll(response.Body)
	if err != nil {
		return err
	}
	if response.StatusCode == http.StatusOK || response.StatusCode == http.StatusAccepted {
		if len(text) == 0 {
			return nil
		}
		return json.Unmarshal(text, answer)
	}
	problem := &Problem{}
	_ = json.Unmarshal(text, problem) // A proxy may have answered.
	problem.Status = response.StatusCode
	return problem
}

// An Event is a webhook of siwatch. EndsSessionsBefore is nil if no session is to end.
type Event struct {
	Type string `json:"type"`
	Data struct {
		UserID             string `json:"user_id"`
		EndsSessionsBefore *int64 `json:"ends_sessions_before"`
	} `json:"data"`
}

// VerifyWebhook verifies a webhook by Standard Webhooks 1.0. Answer 400 to an error.
func VerifyWebhook(secrets []string, header http.Header, body []byte, now time.Time) (Event, error) {
	var event Event
	id, timestamp := header.Get("webhook-id"), header.Get("webhook-timestamp")
	seconds, err := strconv.ParseInt(timestamp, 10, 64)
	if err != nil || id == "" || math.Abs(now.Sub(time.Unix(seconds, 0)).Minutes()) > 5 {
		return event, errors.New("the webhook has no id, or it is too old")
	}
	for _, secret := range secrets {
		key, err := base64.StdEncoding.DecodeString(strings.TrimPrefix(secret, "whsec_"))
		if err != nil || len(key) == 0 {
			return event, errors.New("a secret is not base64")
		}
		code := hmac.New(sha256.New, key)
		fmt.Fprintf(code, "%s.%s.%s", id, timestamp, body)
		expected := []byte("v1," + base64.StdEncoding.EncodeToString(code.Sum(nil)))
		for _, given := range strings.Fields(header.Get("webhook-signature")) {
			if hmac.Equal(expected, []byte(given)) {
				return event, json.Unmarshal(body, &event)
			}
		}
	}
	return event, errors.New("no signature is by one of the secrets")
}
