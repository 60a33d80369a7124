// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import BoundedHTTP
import CredentialCore
import Testing

@testable import AppleIdentity

@Suite struct SigningKeysTests {
    private let apple = AppleFixture.apple
    private let rotated = AppleFixture.rotated

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
        #expect(
            verification.store.all == [SigningKeyRecord(keyID: apple.keyID, jwk: apple.jwk(), firstSeenAt: now, lastSeenAt: now)]
        )
    }

    @Test func anUnknownKeyIsGivenUpAfterTwoFetchesTenMinutesApart() async throws {
        let verification = try await Verification()
        verification.clock.advance(by: .seconds(100))
        let payload = rotated.notification()
        let receivedAt = verification.clock.now

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
                while verification.clock.now < retryAt {
                    verification.clock.advance(by: .seconds(1))
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
        let verification = try await Verification()
        verification.clock.advance(by: .seconds(100))
        await #expect(throws: VerificationError.self) { try await verification.verify(rotated.notification()) }
        verification.transport.now(publishes: apple.jwk(), rotated.jwk())
        #expect(await verification.keys.refreshIfDue() == .fetched(unsaved: nil))
        _ = try await verification.verify(rotated.notification())
        #expect(verification.store.all.map(\.keyID) == [apple.keyID, rotated.keyID].sorted())
    }

    @Test func aThousandForgedNamesASecondCauseOneFetchAMinute() async throws {
        let verification = try await Verification()
        for _ in 0..<180 {
            verification.clock.advance(by: .seconds(1))
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
        let verification = try await Verification()
        verification.transport.now(publishes: rotated.jwk())
        verification.clock.advance(by: .seconds(3600))
        #expect(await verification.keys.refreshIfDue() == .fetched(unsaved: nil))
        #expect(verification.keys.count == 2)
        _ = try await verification.verify(apple.notification(["exp": nil]))
    }

    @Test(
        arguments: [
            .success(TransportResponse(status: 404, body: [])), .success(TransportResponse(status: 302, body: [])),
            .success(TransportResponse(status: 200, body: nil)), .success(TransportResponse(status: 200, body: Array("<html>".utf8))),
            .success(TransportResponse(status: 200, body: Array(#"{"keys":[]}"#.utf8))), .failure(.timeout),
        ] as [Result<TransportResponse, TransportFailure>]
    )
    func aFailedFetchChangesNothing(_ answer: Result<TransportResponse, TransportFailure>) async throws {
        let verification = try await Verification()
        let before = verification.keys.lastRefresh
        verification.transport.now { _ in answer }
        verification.clock.advance(by: .seconds(3600))
        guard case .failed = await verification.keys.refreshIfDue() else {
            Issue.record("it should have failed")
            return
        }
        #expect(verification.keys.lastRefresh == before)
        verification.clock.advance(by: .seconds(59))
        #expect(await verification.keys.refreshIfDue() == .notDue)
        _ = try await verification.verify(apple.notification())
    }

    @Test func aRestartDuringAnOutageKeepsTheKeys() async throws {
        let first = try await Verification()
        let keys = SigningKeys(
            url: "https://appleid.apple.com/auth/keys",
            transport: ScriptedTransport { _ in .failure(.dns) },
            store: first.store,
            clock: first.clock.clock
        )
        first.clock.advance(by: .seconds(10))
        try await keys.load()
        #expect(keys.count == 1)
        #expect(await keys.refreshIfDue() == .failed("dns"), "at once, for Apple's time")
        first.clock.advance(by: .seconds(59))
        #expect(await keys.refreshIfDue(tellsTime: true) == .notDue)
        first.clock.advance(by: .seconds(1))
        #expect(await keys.refreshIfDue() == .failed("dns"))
        let verifier = AppleNotificationVerifier(keys: keys, policy: Verification.policy, clock: first.clock.clock)
        _ = try await verifier.verify(apple.notification(), receivedAt: first.clock.now)
    }

    @Test func aDamagedRecordIsSkipped() async throws {
        let clock = HeldClock()
        let record = SigningKeyRecord(keyID: "A", jwk: "{", firstSeenAt: clock.now, lastSeenAt: clock.now)
        let keys = SigningKeys(
            url: "https://appleid.apple.com/auth/keys",
            transport: ScriptedTransport { _ in .failure(.dns) },
            store: MemoryKeyStore([record]),
            clock: clock.clock
        )
        try await keys.load()
        #expect(keys.count == 0)
        #expect(await keys.refreshIfDue() == .failed("dns"))
    }

    @Test func aFullStoreCostsTheMemoryNotTheKeys() async throws {
        let clock = HeldClock()
        let keys = SigningKeys(
            url: "https://appleid.apple.com/auth/keys",
            transport: ScriptedTransport(body: AppleFixture.keySet(apple.jwk())),
            store: MemoryKeyStore(isFull: true),
            clock: clock.clock
        )
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
