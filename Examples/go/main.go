// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

// A backend with Go's standard library that asks siwatch over HTTP. siwatch.go is all that it needs of a client.
//
// Sessions are in memory, of one process. Replace sessions by your table or your Redis.
package main

import (
	"crypto/rand"
	"encoding/base64"
	"encoding/json"
	"errors"
	"io"
	"log"
	"net/http"
	"os"
	"regexp"
	"strings"
	"sync"
	"time"
)

// As in siwatch's OpenAPI document. An empty nonce stands for none. The limit of the body is that of a code, too.
var (
	codeForm  = regexp.MustCompile(`^[!-~]+$`)
	nonceForm = regexp.MustCompile(`^[!-~]{0,512}$`)
)

type session struct {
	userID     string
	signedInAt int64
}

// sessions keeps sessions by their secret key, and for each user the time before which sessions have ended.
type sessions struct {
	mutex sync.Mutex
	byKey map[string]session
	ends  map[string]int64
}

func (s *sessions) begin(one session) string {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	key := secret()
	s.byKey[key] = one
	return key
}

func (s *sessions) find(key string) (session, bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	one, found := s.byKey[key]
	// The time is kept and asked here, because a webhook may come before the session that it ends.
	return one, found && one.signedInAt >= s.ends[one.userID]
}

func (s *sessions) end(matches func(key string, one session) bool) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	for key, one := range s.byKey {
		if matches(key, one) {
			delete(s.byKey, key)
		}
	}
}

func (s *sessions) endBefore(userID string, time int64) {
	s.mutex.Lock()
	defer s.mutex.Unlock()
	if time > s.ends[userID] {
		s.ends[userID] = time
	}
}

type backend struct {
	siwatch  *Siwatch
	clientID string
	secrets  []string
	sessions *sessions
	receipts sync.Map // Secret links to the ids of deletions.
}

// signedIn ends the session of a request if the user has withdrawn consent since the sign-in.
func (b *backend) signedIn(next func(http.ResponseWriter, *http.Request, session)) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		cookie, err := r.Cookie("session")
		if err != nil {
			answer(w, http.StatusUnauthorized, nil)
			return
		}
		one, found := b.sessions.find(cookie.Value)
		if found {
			ends, err := b.siwatch.EndsSession(r.Context(), one.userID, one.signedInAt)
			if err != nil && !IsTemporary(err) {
				fail(w, err)
				return
			}
			// If siwatch is away, `ends` is false: that is no reason to sign anybody out.
			found = !ends
		}
		if !found {
			b.sessions.end(func(key string, _ session) bool { return key == cookie.Value })
			answer(w, http.StatusUnauthorized, nil)
			return
		}
		next(w, r, one)
	}
}

func (b *backend) signIn(w http.ResponseWriter, r *http.Request) {
	var given struct{ Code, Nonce string }
	if json.NewDecoder(http.MaxBytesReader(w, r.Body, 8<<10)).Decode(&given) != nil ||
		!codeForm.MatchString(given.Code) || !nonceForm.MatchString(given.Nonce) {
		answer(w, http.StatusBadRequest, nil)
		return
	}
	told, err := b.siwatch.SignIn(r.Context(), secret(), b.clientID, given.Code, given.Nonce)
	var problem *Problem
	switch {
	case errors.As(err, &problem) && strings.HasSuffix(problem.Type, ":sign-in-rejected"):
		answer(w, http.StatusUnauthorized, map[string]any{"reason": problem.Reason})
	case err != nil:
		fail(w, err)
	case told.User == nil:
		answer(w, http.StatusServiceUnavailable, map[string]any{"reason": "Apple does not answer. Sign in again later."})
	default:
		key := b.sessions.begin(session{told.User.UserID, told.SignedInAt})
		// And Secure behind TLS.
		http.SetCookie(w, &http.Cookie{Name: "session", Value: key, Path: "/", HttpOnly: true, SameSite: http.SameSiteLaxMode})
		answer(w, http.StatusOK, map[string]any{"user_id": told.User.UserID})
	}
}

func (b *backend) me(w http.ResponseWriter, _ *http.Request, one session) {
	answer(w, http.StatusOK, map[string]any{"user_id": one.userID})
}

func (b *backend) deleteAccount(w http.ResponseWriter, r *http.Request, one session) {
	// Tell siwatch first, then delete your own rows.
	deletion, err := b.siwatch.Delete(r.Context(), secret(), b.clientID, one.userID)
	if err != nil {
		fail(w, err)
		return
	}
	b.sessions.end(func(_ string, other session) bool { return other.userID == one.userID })
	ticket := secret()
	b.receipts.Store(ticket, deletion.ID)
	answer(w, http.StatusAccepted, map[string]any{"receipt": "/receipts/" + ticket})
}

func (b *backend) receipt(w http.ResponseWriter, r *http.Request) {
	id, found := b.receipts.Load(strings.TrimPrefix(r.URL.Path, "/receipts/"))
	if !found {
		answer(w, http.StatusNotFound, nil)
		return
	}
	deletion, err := b.siwatch.Deletion(r.Context(), id.(string))
	if err != nil {
		fail(w, err)
		return
	}
	answer(w, http.StatusOK, map[string]any{"outcome": deletion.Outcome, "tokens": deletion.Tokens})
}

func (b *backend) webhook(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		answer(w, http.StatusBadRequest, nil)
		return
	}
	event, err := VerifyWebhook(b.secrets, r.Header, body, time.Now())
	if err != nil {
		answer(w, http.StatusBadRequest, nil)
		return
	}
	if before := event.Data.EndsSessionsBefore; before != nil {
		b.sessions.endBefore(event.Data.UserID, *before)
	}
	answer(w, http.StatusOK, nil)
}

// notification is needed only if no reverse proxy hands Apple's notifications to siwatch. Apple tries again after any answer but 200.
func (b *backend) notification(w http.ResponseWriter, r *http.Request) {
	body, err := io.ReadAll(http.MaxBytesReader(w, r.Body, 64<<10))
	if err != nil {
		answer(w, http.StatusRequestEntityTooLarge, nil)
		return
	}
	err = b.siwatch.Notify(r.Context(), body)
	var problem *Problem
	switch {
	case errors.As(err, &problem):
		answer(w, problem.Status, nil)
	case err != nil:
		fail(w, err)
	default:
		answer(w, http.StatusOK, nil)
	}
}

func main() {
	client := &http.Client{Timeout: 20 * time.Second} // A sign-in waits ten.
	b := &backend{
		siwatch:  &Siwatch{URL: os.Getenv("SIWATCH_URL"), Token: os.Getenv("SIWATCH_TOKEN"), HTTP: client},
		clientID: os.Getenv("CLIENT_ID"),
		secrets:  strings.Fields(os.Getenv("SIWATCH_WEBHOOK_SECRET")),
		sessions: &sessions{byKey: map[string]session{}, ends: map[string]int64{}},
	}
	mux := http.NewServeMux()
	mux.HandleFunc("/sign-in", only(http.MethodPost, b.signIn))
	mux.HandleFunc("/me", only(http.MethodGet, b.signedIn(b.me)))
	mux.HandleFunc("/account", only(http.MethodDelete, b.signedIn(b.deleteAccount)))
	mux.HandleFunc("/receipts/", only(http.MethodGet, b.receipt))
	mux.HandleFunc("/siwatch", only(http.MethodPost, b.webhook))
	mux.HandleFunc("/apple/notifications", only(http.MethodPost, b.notification))
	server := &http.Server{Addr: "127.0.0.1:" + os.Getenv("PORT"), Handler: mux, ReadHeaderTimeout: 10 * time.Second}
	log.Fatal(server.ListenAndServe())
}

func only(method string, next http.HandlerFunc) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != method {
			answer(w, http.StatusMethodNotAllowed, nil)
			return
		}
		next(w, r)
	}
}

func answer(w http.ResponseWriter, status int, members map[string]any) {
	w.Header().Set("Content-Type", "application/json")
	w.WriteHeader(status)
	_ = json.NewEncoder(w).Encode(members)
}

// fail answers 500 to a mistake, so that somebody hears of it: a backend that swallows it ends no session.
func fail(w http.ResponseWriter, err error) {
	log.Print(err)
	status := http.StatusInternalServerError
	if IsTemporary(err) {
		status = http.StatusServiceUnavailable
	}
	answer(w, status, nil)
}

func secret() string {
	bytes := make([]byte, 32)
	if _, err := rand.Read(bytes); err != nil {
		panic(err)
	}
	return base64.RawURLEncoding.EncodeToString(bytes)
}
