// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Hummingbird

struct Users: Sendable {
    let desk: any BackendDesk
    let apps: [String]
    let times: SignInTimes

    func show(_ userID: String, _ request: Request, noting doubt: inout BackendAPI.Doubt?) async throws(Problem) -> Response {
        var query = Members(ofQuery: request)
        let app = app(in: &query)
        check(userID, noting: &query)
        try query.finish()
        guard let state = try await Problem.reading({ try await desk.userState(of: userID, in: app) }) else {
            doubt = .unknownUser
            throw Problem(.notFound)
        }
        return .json(state)
    }

    func endsSession(_ userID: String, _ request: Request, noting doubt: inout BackendAPI.Doubt?) async throws(Problem) -> Response {
        var query = Members(ofQuery: request)
        let app = app(in: &query)
        let signedInAt = query.integer("signed_in_at", Timestamp.legalMilliseconds)
        check(userID, noting: &query)
        if signedInAt == nil, !query.has("signed_in_at") { query.note("signed_in_at is missing") }
        if let mistake = times.mistake(signedInAt) { query.note(mistake) }
        try query.finish()
        let state = try await Problem.reading { try await desk.userState(of: userID, in: app) }
        let signIn = Timestamp(milliseconds: signedInAt ?? 0)
        doubt = state == nil ? .unknownUser : times.isNow(signIn) ? .datedNow : nil
        let ends = state?.endsSession(of: signIn) ?? false
        return .json(SessionEnd(endsSession: ends, state: state?.state, reason: state?.reason, changedAt: state?.changedAt))
    }

    private struct SessionEnd: Encodable {
        var endsSession: Bool
        var state, reason: String?
        var changedAt: Timestamp?
    }

    private func check(_ userID: String, noting query: inout Members) {
        if !TextForm.name.matches(userID) { query.note("the user in the path has to be \(TextForm.name.words)") }
    }

    /// The app that a query names, or the only one. Its name is checked, because a mistyped one would find no user and end no session.
    private func app(in query: inout Members) -> String {
        if let name = query.text("app", .appName) {
            if !apps.contains(name) { query.note("app names no app of the configuration") }
            return name
        }
        if apps.count > 1 { query.note("app is missing, and there are several") }
        return apps[0]
    }
}
