// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore
import CredentialTesting
import Testing

@testable import AppleIdentity

@Suite struct SigningKeysTests {
    private let apple = AppleFixture.apple
    private let rotated = AppleFixture.rotated
    private let verification: Verification

    init() async throws { verification = try await Verification() }
    private var clock: TestClock { verification.clock }

    private func record(_ key: AppleFixture, seen: Timestamp) -> SigningKeyRecord {
        PlainSealer().prove(SigningKeyRecord(keyID: key.keyID, jwk: key.jwk(), lastSeenAt: seen))
    }

    /// Another process, which Apple does not answer.
    private func restart(_ store: MemoryKeyStore, _ news: SigningKeyNews = SigningKeyNews()) async throws -> SigningKeys {
        let keys = SigningKeys(ScriptedTransport { _ in .failure(.dns) }, store, clock, news)
        try await keys.load()
        return keys
    }

    @Test func fetchesAndRemembers() async throws {
        let verification = try await Verification(fetches: false)
        let now = verification.clock.now
        #expect(verification.keys.lastRefresh == nil)
        #expect(await verification.keys.refreshIfDue() == .fetched(unsaved: nil))
        #expect(await verification.keys.refreshIfDue() == .notDue)
        #expect(verification.keys.count == 1)
        #expect(verification.keys.lastRefresh == now)
        verification.clock.advance(by: .seconds(3599))
        #expect(await verification.keys.refreshIfDue() == .notDue)
        #expect(verification.transport.requests.map(\.endpoint) == [.keys])
        #expect(verification.transport.requests.allSatisfy { $0.form == nil })
        #expect(verification.store.all == [record(apple, seen: now)])
        #expect(verification.news.take() == ["new \(apple.keyID)"])
    }

    @Test func anUnknownKeyIsGivenUpAfterTwoFetchesTenMinutesApart() async throws {
        clock.advance(by: .seconds(100))
        let payload = rotated.notification()
        let receivedAt = clock.now

        var rounds = 0
        var retries: [Duration] = []
        while true {
            do {
                _ = try await verification.verify(payload, receivedAt: receivedAt)
                Issue.record("nobody knows this key")
                return
            } catch .keyNotYetKnown(let retryAt) {
                rounds += 1
                retries.append(receivedAt.duration(to: retryAt))
                while clock.now < retryAt {
                    clock.advance(by: .seconds(1))
                    _ = await verification.keys.refreshIfDue()
                }
            } catch .rejected(let reason, let detail) {
                #expect(reason == .unknownKey)
                #expect(detail == rotated.keyID)
                break
            }
        }
        #expect(retries == [.seconds(5), .seconds(606)])
        #expect(verification.transport.requests.count == 1 + 11)
    }

    @Test func aKeyThatAppearsVerifiesItsTokens() async throws {
        clock.advance(by: .seconds(100))
        await #expect(throws: VerificationError.self) { try await verification.verify(rotated.notification()) }
        verification.transport.now(publishes: apple.jwk(), rotated.jwk())
        #expect(await verification.keys.refreshIfDue() == .fetched(unsaved: nil))
        _ = try await verification.verify(rotated.notification())
        #expect(verification.store.all.map(\.keyID) == [apple.keyID, rotated.keyID].sorted())
    }

    @Test func aThousandForgedNamesASecondCauseOneFetchAMinute() async throws {
        for _ in 0..<180 {
            clock.advance(by: .seconds(1))
            for number in 0..<10 {
                let payload = Array(apple.sign(header: #"{"kid":"forged-\#(number)","alg":"RS256"}"#, claims: "{}").utf8)
                await #expect(throws: VerificationError.self) { try await verification.verify(payload) }
                _ = await verification.keys.refreshIfDue()
            }
        }
        #expect(verification.transport.requests.count == 1 + 3)
        _ = try await verification.verify(apple.notification())
    }

    @Test func aRetiredKeyStaysUsable() async throws {
        verification.transport.now(publishes: rotated.jwk())
        clock.advance(by: .seconds(3600))
        #expect(await verification.keys.refreshIfDue() == .fetched(unsaved: nil))
        #expect(verification.keys.count == 2)
        _ = try await verification.verify(apple.notification(["exp": nil]))
        #expect(verification.news.take() == ["new \(apple.keyID)", "new \(rotated.keyID)", "retired \(apple.keyID)"])
    }

    @Test func aRetiredKeyIsForgottenAfterThirtyDays() async throws {
        let retired = clock.now
        verification.transport.now(publishes: rotated.jwk())
        for days in [1, 30] {
            clock.advance(by: .days(days) - retired.duration(to: clock.now))
            #expect(await verification.keys.refreshIfDue() == .fetched(unsaved: nil))
            #expect(verification.keys.count == 2)
        }
        _ = verification.news.take()
        clock.advance(by: .hours(1))
        #expect(try await restart(verification.store).key(apple.keyID) == nil, "it does not wait for a fetch")
        #expect(await verification.keys.refreshIfDue() == .fetched(unsaved: nil))
        #expect(verification.keys.key(apple.keyID) == nil)
        #expect(verification.store.all.map(\.keyID) == [rotated.keyID])
        #expect(verification.news.take() == ["forgotten \(apple.keyID)"])
    }

    /// Thirty-one days have passed by the clock, which cannot be trusted.
    @Test func aClockThatCannotBeTrustedForgetsNoKey() async throws {
        let transport = ScriptedTransport(body: AppleFixture.keySet(rotated.jwk()))
        let keys = SigningKeys(transport, verification.store, clock, isTrusted: false)
        try await keys.load()
        clock.advance(by: .days(31))
        #expect(await keys.refreshIfDue() == .fetched(unsaved: nil))
        #expect(keys.count == 2 && verification.store.all.count == 2)
    }

    /// The key was seen by a clock that was a year ahead. That does not add a year to its life.
    @Test func aKeySeenInTheFutureIsForgottenAfterThirtyDaysToo() async throws {
        let store = MemoryKeyStore([record(apple, seen: clock.now.advanced(by: .days(365)))])
        let keys = SigningKeys(ScriptedTransport(body: AppleFixture.keySet(rotated.jwk())), store, clock)
        try await keys.load()
        let now = clock.now
        #expect(await keys.refreshIfDue() == .fetched(unsaved: nil))
        #expect(keys.count == 2)
        #expect(store.all.contains(record(apple, seen: now)))
        clock.advance(by: .days(30) + .hours(1))
        #expect(await keys.refreshIfDue() == .fetched(unsaved: nil))
        #expect(keys.count == 1 && store.all.map(\.keyID) == [rotated.keyID])
    }

    /// Somebody who can write into the database can write a key there, and sign events with it.
    @Test func aRecordThatSiwatchDidNotWriteIsNotBelieved() async throws {
        let genuine = record(apple, seen: clock.now)
        var exchanged = genuine
        exchanged.jwk = rotated.jwk(["kid": "\"\(apple.keyID)\""])
        var revived = genuine
        revived.lastSeenAt = clock.now.advanced(by: .days(365))
        var renamed = genuine
        renamed.keyID = rotated.keyID
        let unproved = SigningKeyRecord(keyID: rotated.keyID, jwk: rotated.jwk(), lastSeenAt: clock.now)
        for planted in [exchanged, revived, renamed, unproved] {
            let (store, news) = (MemoryKeyStore([planted]), SigningKeyNews())
            let keys = try await restart(store, news)
            #expect(keys.count == 0 && keys.lastRefresh == nil)
            #expect(store.all.isEmpty)
            #expect(news.take() == ["disbelieved \(planted.keyID)"])
        }
        #expect(try await restart(MemoryKeyStore([genuine])).count == 1)
    }

    @Test func aRecordPlantedMeanwhileIsFoundAtTheNextFetch() async throws {
        let planted = SigningKeyRecord(keyID: rotated.keyID, jwk: rotated.jwk(), lastSeenAt: clock.now)
        try await verification.store.remember([planted], forgetting: [])
        _ = verification.news.take()
        clock.advance(by: .hours(1))
        #expect(await verification.keys.refreshIfDue() == .fetched(unsaved: nil))
        #expect(verification.keys.key(rotated.keyID) == nil)
        #expect(verification.store.all.map(\.keyID) == [apple.keyID])
        #expect(verification.news.take() == ["disbelieved \(rotated.keyID)"])
    }

    @Test func aKeyThatAnotherReplicaFetchedIsTaken() async throws {
        try await verification.store.remember([record(rotated, seen: clock.now)], forgetting: [])
        clock.advance(by: .hours(1))
        #expect(await verification.keys.refreshIfDue() == .fetched(unsaved: nil))
        _ = try await verification.verify(rotated.notification(["exp": nil]))
    }

    @Test(arguments: [
        Result<TransportResponse, TransportFailure>.failure(.timeout), .success(TransportResponse(status: 404, body: [])),
        .success(TransportResponse(status: 302, body: [])), .success(TransportResponse(status: 200, body: nil)),
        .success(TransportResponse(status: 200, body: Array("<html>".utf8))),
        .success(TransportResponse(status: 200, body: Array(#"{"keys":[]}"#.utf8))),
    ])
    func aFailedFetchChangesNothing(_ answer: Result<TransportResponse, TransportFailure>) async throws {
        let before = verification.keys.lastRefresh
        verification.transport.now { _ in answer }
        clock.advance(by: .seconds(3600))
        let hasFailed = if case .failed = await verification.keys.refreshIfDue() { true } else { false }
        #expect(hasFailed)
        #expect(verification.keys.lastRefresh == before)
        clock.advance(by: .seconds(59))
        #expect(await verification.keys.refreshIfDue() == .notDue)
        _ = try await verification.verify(apple.notification())
    }

    @Test func aRestartDuringAnOutageKeepsTheKeys() async throws {
        clock.advance(by: .seconds(10))
        let keys = try await restart(verification.store)
        #expect(keys.count == 1)
        #expect(await keys.refreshIfDue() == .failed("dns"), "at once, for Apple's time")
        clock.advance(by: .seconds(59))
        #expect(await keys.refreshIfDue(tellsTime: true) == .notDue)
        clock.advance(by: .seconds(1))
        #expect(await keys.refreshIfDue() == .failed("dns"))
        let verifier = AppleNotificationVerifier(keys: keys, policy: Verification.policy, clock: clock.wallClock)
        _ = try await verifier.verify(apple.notification(), receivedAt: clock.now)
    }

    @Test func aDamagedRecordIsSkipped() async throws {
        let record = PlainSealer().prove(SigningKeyRecord(keyID: "A", jwk: "{", lastSeenAt: clock.now))
        let keys = try await restart(MemoryKeyStore([record]))
        #expect(keys.count == 0)
        #expect(await keys.refreshIfDue() == .failed("dns"))
    }

    @Test func aFullStoreCostsTheMemoryNotTheKeys() async throws {
        let keys = SigningKeys(ScriptedTransport(body: AppleFixture.keySet(apple.jwk())), MemoryKeyStore(isFull: true), clock)
        #expect(await keys.refreshIfDue() == .fetched(unsaved: "Full()"))
        #expect(keys.count == 1)
    }

    @Test func oneFetchIsUnderWayAtATime() async throws {
        let verification = try await Verification(fetches: false)
        let (entered, enter) = AsyncStream<Void>.makeStream()
        let (released, release) = AsyncStream<Void>.makeStream()
        verification.transport.now { _ in
            enter.yield()
            for await _ in released { break }
            return .success(TransportResponse(status: 200, body: AppleFixture.keySet(AppleFixture.apple.jwk())))
        }
        async let first = verification.keys.refreshIfDue()
        for await _ in entered { break }
        verification.clock.advance(by: .seconds(7200))
        #expect(await verification.keys.refreshIfDue() == .notDue)
        release.yield()
        #expect(await first == .fetched(unsaved: nil))
    }
}
