// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import CredentialMonitor
import CredentialTesting
import DaemonHarness
import Logging
import NIOConcurrencyHelpers
import PrometheusMetrics
import Testing

@testable import BackendAPI
@testable import siwatch

struct DoorRefusalsTests {
    private let clock = TestClock()
    private let events = NIOLockedValueBox<[String]>([])
    private let registry = PrometheusRegistry(Metric.allCases.map(MetricDescription.init))
    private let refusals: DoorRefusals
    private let telemetry: Telemetry

    init() {
        let log = EventLog(events: events)
        telemetry = Telemetry(logger: Logger(label: "test") { _ in log }, factory: registry, pseudonym: { $0 })
        refusals = DoorRefusals(clock: clock.wallClock, telemetry: telemetry)
    }

    private func serve(
        _ number: Int,
        _ refusal: String? = "bad-request: app is missing",
        client: String? = "backend",
        operation: String? = "endsSession",
        status: Int = 400,
        doubt: BackendAPI.Doubt? = nil
    ) {
        let served = BackendAPI.Served(client: client, operation: operation, status: status, refusal: refusal, doubt: doubt)
        for _ in 0..<number { refusals.note(served) }
    }

    private var level: String? { registry.exposition().firstMatch(of: /siwatch_http_refusals\{client="backend"\} (\d)/).map { "\($0.1)" } }

    @Test func aDoorThatHasServedNobodyIsUseless() {
        serve(4)
        refusals.look()
        #expect(refusals.all.isEmpty && level == "0")
        serve(1)
        refusals.look()
        #expect(refusals.all.map(\.isDoorUseless) == [true] && level == "2")
        #expect(refusals.all.first?.words == "bad-request: app is missing" && refusals.all.first?.at == clock.now)
        serve(1, nil, status: 200)
        refusals.look()
        #expect(refusals.all.map(\.isDoorUseless) == [false] && level == "1")
        #expect(events.withLockedValue(\.self) == ["requests_refused"], "it is told once")
    }

    @Test func moreThanOneInTenIsAFindingForTenMinutes() {
        serve(45, nil, status: 200)
        serve(5)
        refusals.look()
        #expect(refusals.all.isEmpty)
        clock.advance(by: .minutes(3))
        serve(1)
        refusals.look()
        #expect(refusals.all.map(\.refused) == [6] && refusals.all.map(\.asked) == [51])
        clock.advance(by: .minutes(7))
        refusals.look()
        #expect(refusals.all.isEmpty && level == "0")
        #expect(events.withLockedValue(\.self) == ["requests_refused", "requests_taken"])
    }

    /// A backend asks at each request, and deletes seldom.
    @Test func manyGoodRequestsHideNoOthers() {
        serve(200, nil, status: 200)
        serve(5, "unknown-client: No configured app has this client", operation: "delete", status: 422)
        refusals.look()
        #expect(refusals.all.map(\.operation) == ["delete"] && refusals.all.map(\.asked) == [5] && level == "1")
    }

    /// The backend asks with ids of its own, or tells in another time zone.
    @Test(arguments: BackendAPI.Doubt.allCases) func answersThatWereHardlyMeantAreSaid(_ doubt: BackendAPI.Doubt) {
        serve(2, nil, status: 200)
        serve(17, nil, status: 200, doubt: doubt)
        refusals.look()
        #expect(refusals.all.isEmpty)
        serve(1, nil, status: 200, doubt: doubt)
        refusals.look()
        #expect(refusals.all.map(\.words) == [doubt.words] && refusals.all.map(\.isAnswered) == [true] && level == "0")
        #expect(refusals.all.map(\.refused) == [18] && refusals.all.map(\.asked) == [20])
        serve(1, nil, status: 200)
        refusals.look()
        #expect(events.withLockedValue(\.self) == ["requests_refused", "requests_taken"])
    }

    /// Anybody can scan, post to Apple's path, and have a backend forward it. A database that is away is another trouble.
    @Test func whatStrangersSendIsNobodysMistake() {
        serve(20, "no-such-path: There is no such path", client: nil, operation: nil, status: 404)
        serve(20, "bad-request: the body is empty", client: "apple", operation: "receiveNotification")
        serve(20, "bad-request: the body is empty", operation: "forwardNotification")
        serve(20, nil, status: 503)
        #expect(refusals.all.isEmpty)
        serve(5, "unauthorized: the token stands in no token file", client: nil, status: 401)
        serve(5, "forbidden: the client lacks the right notify", operation: "forwardNotification", status: 403)
        #expect(refusals.all.map(\.client) == ["backend", "none"])
    }

    @Test func signInsThatComeToNothingAreLoggedOnceAndWhenThatEnds() {
        for _ in 1...2 { telemetry.observe(signInsRejected: ["app": "code_used"]) }
        #expect(events.withLockedValue(\.self) == ["sign_ins_rejected"])
        telemetry.observe(signInsRejected: [:])
        #expect(events.withLockedValue(\.self) == ["sign_ins_rejected", "sign_ins_taken"])
    }

    /// People's codes fail as they do, and the logs tell of it. If none has ever brought a sign-in, the door is useless.
    @Test func rejectedSignInsAreRefusalsWhileNothingSucceeds() {
        serve(6, "sign-in-rejected: redirect_uri_mismatch", operation: "signIn", status: 422)
        #expect(refusals.all.map(\.isDoorUseless) == [true])
        clock.advance(by: .minutes(10))
        serve(1, nil, operation: "signIn", status: 200)
        serve(6, "sign-in-rejected: redirect_uri_mismatch", operation: "signIn", status: 422)
        #expect(refusals.all.isEmpty)
    }
}

private struct EventLog: LogHandler {
    let events: NIOLockedValueBox<[String]>
    var metadata: Logger.Metadata = [:]
    var logLevel = Logger.Level.debug

    subscript(metadataKey key: String) -> Logger.Metadata.Value? {
        get { metadata[key] }
        set { metadata[key] = newValue }
    }

    func log(event: LogEvent) { if let name = event.metadata?["event"] { events.withLockedValue { $0.append("\(name)") } } }
}

/// What nobody but the backends notices.
struct DoorWatchTests {
    private let now = NIOLockedValueBox(ContinuousClock.now)
    private let watch: DoorWatch

    init() { watch = DoorWatch { [now] in now.withLockedValue(\.self) } }
    private func pass(_ time: Duration) { now.withLockedValue { $0 += time } }

    @Test func whatFailsForSecondsIsATrouble() {
        #expect(watch.note(.reading, failure: "no room") == nil)
        pass(.seconds(5))
        #expect(watch.trouble == nil, "one failure is none")
        #expect(watch.note(.reading, failure: "no room at all") == .failed)
        #expect(watch.note(.reading, failure: "no room at all") == nil, "it is told once")
        #expect(watch.note(.writing, failure: nil) == nil)
        #expect(watch.trouble == "the HTTP door finds no database for reading: no room at all")
        #expect(watch.note(.reading, failure: nil) == .recovered && watch.trouble == nil)
    }

    /// Nobody may ask again for hours.
    @Test func aTroubleIsForgottenAfterAMinute() {
        _ = watch.note(.writing, failure: "no room")
        pass(.seconds(59))
        #expect(watch.note(.writing, failure: "no room") == .failed)
        pass(.seconds(59))
        #expect(watch.trouble != nil)
        pass(.seconds(1))
        #expect(watch.trouble == nil)
        #expect(watch.note(.writing, failure: "no room") == nil, "it begins anew")
    }
}

@Suite(.timeLimit(.minutes(1))) struct AppendQueueTests {
    /// The others are appended, and the database is not asked for each of them.
    @Test func oneRefusedRowIsFoundByHalves() async throws {
        let desk = RefusingDesk()
        let queue = AppendQueue(desk, clock: TestClock(now: .earliest).wallClock) { _ in }
        let refused = try await withThrowingTaskGroup(of: UInt8?.self) { group in
            // Or a failure here would wait for the callers for ever.
            defer { desk.open() }
            func ask(_ body: UInt8) {
                group.addTask {
                    do throws(Problem) {
                        let row = try await queue.append(.notification([body]))
                        #expect(row == .row(RowReference(id: Int64(body), time: .earliest)))
                        return nil
                    } catch {
                        #expect(error.kind == .badRequest)
                        return body
                    }
                }
            }
            ask(0)
            try await eventually { desk.appends == 1 }
            // One is being written, and the others gather.
            for body in UInt8(1)...64 { ask(body) }
            try await eventually { await queue.waiting.count == 64 }
            desk.open()
            return try await group.reduce(into: [UInt8]()) { refused, body in if let body { refused.append(body) } }
        }
        #expect(refused == [RefusingDesk.bad])
        // The first row alone, all others, and two halves of each of six portions.
        #expect(desk.appends <= 14)
    }
}

/// Refuses each portion with one row in it, after it was opened.
private final class RefusingDesk: BackendDesk {
    static let bad: UInt8 = 23
    private let count = NIOLockedValueBox(0)
    private let gate = AsyncStream.makeStream(of: Void.self)

    var appends: Int { count.withLockedValue(\.self) }

    func open() { gate.continuation.finish() }

    func append(_ requests: [BackendRequest], at now: Timestamp) async throws -> [AppendedRequest] {
        if count.withLockedValue({ count in
            count += 1
            return count == 1
        }) {
            for await _ in gate.stream {}
        }
        let bodies = requests.map { if case .notification(let body) = $0 { body[0] } else { UInt8.max } }
        guard !bodies.contains(Self.bad) else { throw StoreError.refused("a row is at fault") }
        return bodies.map { .row(RowReference(id: Int64($0), time: now)) }
    }

    func settledSignIns(among ids: Set<Int64>) async throws -> [Int64] { [] }
    func signInOutcomes(_ ids: [Int64]) async throws -> [Int64: SignInOutcome] { [:] }
    func deletionOutcome(_ id: Int64) async throws -> DeletionOutcome? { nil }
    func userState(of userID: String, in app: String) async throws -> UserState? { nil }
    func changes(after id: Int64, of app: String?, upTo limit: Int) async throws -> ChangePage {
        ChangePage(changes: [], oldest: 1, newest: .beforeAll, last: nil)
    }
}
