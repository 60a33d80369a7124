// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore
import Foundation
package import Hummingbird
import NIOCore

/// What backends tell and ask over HTTP, as docs/http.md explains. It writes the rows and reads the views that a backend would over SQL.
package struct BackendAPI: Sendable {
    private let access: Access
    private let intake: Intake
    private let signIns: SignIns
    private let deletions: Deletions
    private let users: Users
    private let changes: Changes
    private let note: @Sendable (Served) -> Void

    package struct Served: Sendable, Equatable {
        package var client: String?
        /// As in openapi.json; nil if the path is none.
        package var operation: String?
        package var status: Int
        /// What the database was asked for; nil if it was not, or may not have been.
        package var use: DatabaseUse?
        /// Why the database could not answer.
        package var failure: String?
        /// Why the client has to ask otherwise: the `type` and the words of the answer, without a value of the request.
        package var refusal: String?
        package var doubt: Doubt?
    }

    /// Why a request that was answered was hardly meant so, if nearly all of its kind are like that.
    package enum Doubt: Sendable, CaseIterable {
        case unknownUser, toldLate, datedNow

        package var words: String {
            switch self {
            case .unknownUser: "siwatch knows none of these users. Ask with Apple's sub, and tell or import their sign-ins"
            case .toldLate: "signed_in_at is more than a quarter of an hour ago, as if in another time zone"
            case .datedNow: "signed_in_at is the time of the question, so no session ends. Ask with the time that the sign-in was told with"
            }
        }
    }

    /// Each has a connection of its own.
    package enum DatabaseUse: String, Sendable {
        case reading, writing
    }

    /// - Parameters:
    ///   - apps: as configured. There is at least one.
    ///   - latestSignIn: the latest time that a sign-in may have now.
    ///   - intakeTest: the answer to a question of `siwatch doctor --intake`; nil for any other body.
    ///   - onAppended: called after each commit with the queues that have new rows.
    package init(
        _ desk: any BackendDesk,
        verifier: any NotificationVerifier,
        apps: [AppClients],
        clients: [Client],
        requestsPerSecond: Int,
        clock: WallClock,
        latestSignIn: @escaping @Sendable () -> Timestamp,
        intakeTest: @escaping @Sendable ([UInt8]) -> String?,
        onAppended: @escaping @Sendable (Set<Queue>) -> Void,
        note: @escaping @Sendable (Served) -> Void
    ) {
        let queue = AppendQueue(desk, clock: clock, onAppended: onAppended)
        let (names, clientIDs) = (apps.map(\.name), Set(apps.flatMap(\.clientIDs)))
        access = Access(clients, requestsPerSecond: requestsPerSecond)
        intake = Intake(verifier, queue, clock: clock, testAnswer: intakeTest)
        let outcomes = Waiters<Int64, SignInOutcome>(every: .milliseconds(10)) { ids in
            try await desk.signInOutcomes(desk.settledSignIns(among: ids))
        }
        let times = SignInTimes(clock: clock, latest: latestSignIn)
        signIns = SignIns(desk: desk, queue: queue, outcomes: outcomes, clients: clientIDs, times: times)
        deletions = Deletions(desk: desk, queue: queue, clients: clientIDs)
        users = Users(desk: desk, apps: names, times: times)
        let news = Waiters<Int64, Void>(every: .milliseconds(100)) { ids in
            let newest = try await desk.changes(after: .max, of: nil, upTo: 0).newest.id
            return Dictionary(uniqueKeysWithValues: ids.filter { $0 < newest }.map { ($0, ()) })
        }
        changes = Changes(desk: desk, apps: names, news: news)
        self.note = note
    }

    package func use(_ clients: [Client], requestsPerSecond: Int) {
        access.use(clients, requestsPerSecond: requestsPerSecond)
        // Who follows changes has to show the token again. A task, because a reload waits for nobody. It ends after one step.
        Task { await changes.news.letGo() }
    }

    /// Looks for outcomes at once, because this process has settled something.
    package func settled() {
        // A task, because the writer does not wait for callers. It ends after the look.
        Task { await signIns.outcomes.hint() }
    }

    /// Answers everybody who waits, because siwatch stops.
    package func end() async {
        await signIns.outcomes.end()
        await changes.news.end()
    }

    @Sendable package func respond(to request: Request) async -> Response {
        var served = Served(status: 0)
        let response: Response
        do throws(Problem) {
            response = try await answer(request, noting: &served)
        } catch {
            response = error.response
            (served.failure, served.refusal) = (error.cause, error.refusal)
        }
        served.status = response.status.code
        // Other refusals may come before the database is asked.
        let asks = served.failure != nil || [.ok, .accepted, .gone, .unprocessableContent].contains(response.status)
        if !asks { served.use = nil }
        note(served)
        return response
    }

    private func answer(_ request: Request, noting served: inout Served) async throws(Problem) -> Response {
        let route = Route(request.uri.path)
        guard let route, route.operation.method == request.method else {
            // Without a token it is a stranger's scan.
            served.client = try? access.client(of: request).name
            guard let route else { throw Problem(.noSuchPath) }
            let problem = Problem(.methodNotAllowed)
            served.refusal = problem.refusal
            var response = problem.response
            response.headers[.allow] = route.operation.method.rawValue
            return response
        }
        (served.operation, served.use) = (route.operation.rawValue, route.operation.use)
        func client(_ rights: Right...) throws(Problem) -> String {
            let client = try access.client(of: request)
            served.client = client.name
            try access.admit(client, toDo: rights)
            return client.name
        }
        func row(_ right: Right) throws(Problem) -> RowReference {
            _ = try client(right, .read)
            guard let row = RowReference(route.name) else { throw Problem.unknownID }
            return row
        }
        switch route.operation {
        case .getDescription:
            return Response(
                status: .ok,
                headers: [.contentType: "application/json"],
                body: ResponseBody(byteBuffer: ByteBuffer(bytes: PackageResources.openapi_json))
            )
        case .receiveNotification:
            served.client = "apple"
            // A flood of forgeries must not keep Apple out.
            let response = try await intake.take(request) { () throws(Problem) in try access.admit("") }
            // A test is nobody's success, and asks no database.
            if response.body.contentLength ?? 0 > 0 { (served.client, served.use) = (nil, nil) }
            return response
        case .forwardNotification:
            _ = try client(.notify)
            return try await intake.take(request) {}
        case .signIn:
            let name = try client(.signIn)
            return try await signIns.tell(request, by: name, noting: &served.doubt)
        case .getSignIn: return try await signIns.show(row(.signIn), request)
        case .delete: return try await deletions.tell(request, by: client(.delete))
        case .getDeletion: return try await deletions.show(row(.delete), request)
        case .getUser:
            _ = try client(.read)
            return try await users.show(route.name, request, noting: &served.doubt)
        case .endsSession:
            _ = try client(.read)
            return try await users.endsSession(route.name, request, noting: &served.doubt)
        case .getChanges:
            // Before the token is looked at, so that no reload comes in between.
            let releases = await changes.news.releases
            _ = try client(.read)
            return try await changes.show(request, since: releases)
        }
    }
}
