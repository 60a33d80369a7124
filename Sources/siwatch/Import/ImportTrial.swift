// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore

/// Lets siwatch ask Apple about a few tokens of an import before the others are told.
///
/// The command itself never asks Apple. It makes the checks of these users due, and reads the answers that the running siwatch gets.
struct ImportTrial {
    let configuration: Configuration
    let store: any CredentialStore
    let samples: [ToldSignIn]
    /// Those whose rows changed nothing, because siwatch has their tokens from earlier sign-ins.
    let retold: Set<CredentialID>

    private static let patience = Duration.seconds(180)
    /// How long Apple may refuse the client, or not be reached, before the trial ends.
    private static let patienceWithFailures = Duration.seconds(30)
    private static let pollInterval = Duration.milliseconds(250)

    struct Result: Encodable, Equatable {
        var samples = 0
        var accepted = 0
        var rejected = 0
        var ofAnotherUser = 0
        var unclear = 0
        var unanswered = 0
        var outdated = 0
        var retold = 0
        var putBack = 0
        var erased = 0

        var answered: Int { accepted + rejected + ofAnotherUser + unclear + putBack }

        /// Whether the import may go on without a question.
        var isGood: Bool { accepted > 0 && accepted * 2 >= answered }

        var text: String {
            let parts = [
                (accepted, "accepted"), (rejected, "rejected as ended or never issued to this client"),
                (ofAnotherUser, "another user's"), (unclear, "refused in words that say nothing of the token"),
                (unanswered, "not answered"),
                (outdated, "older than the token that siwatch has"), (retold, "known from an earlier sign-in"),
                (putBack, "rejected or another user's, so that siwatch keeps an older token"), (erased, "erased"),
            ]
            let list = parts.filter { $0.0 > 0 }.map { "\($0.0) \($0.1)" }.joined(separator: ", ")
            return "Apple was asked about \(samples.counted("sample")): \(list)."
        }
    }

    /// Waits for the answers, for at most three minutes. siwatch must have settled the rows of the samples before.
    func run(_ progress: ProgressLine) async throws -> Result {
        for user in Set(samples.compactMap(\.userID)).sorted() {
            let answer = try await OperatorRequest.recheckUser(user).carryOut(in: configuration)
            guard case .rechecking(let recheck) = answer, let app = recheck.pausedApps.first else { continue }
            throw Self.paused(app)
        }
        progress.begin("asking Apple", of: samples.count, "samples")
        defer { progress.end() }
        let start = ContinuousClock.now
        while true {
            let tokens = try await store.importedTokens(of: samples.map { CredentialID(clientID: $0.clientID, userID: $0.userID ?? "") })
            let result = Self.judge(samples, tokens, retold: retold)
            progress.set(result.samples - result.unanswered)
            let hasFailed = result.accepted == 0 && tokens.contains { $0?.hasFailed ?? false }
            if result.unanswered == 0 || ContinuousClock.now - start > (hasFailed ? Self.patienceWithFailures : Self.patience) {
                return result
            }
            try await Task.sleep(for: Self.pollInterval)
        }
    }

    static func paused(_ app: String) -> CommandFailure {
        .unavailable(
            """
            the app \(app.printable) is paused, so siwatch asks Apple about no sample: run siwatch resume \(app.printable), or leave the \
            samples out with --no-trial
            """
        )
    }

    static func judge(_ samples: [ToldSignIn], _ tokens: [ImportedToken?], retold: Set<CredentialID> = []) -> Result {
        zip(samples, tokens).reduce(into: Result(samples: samples.count)) { result, sample in
            let isRetold = retold.contains(CredentialID(clientID: sample.0.clientID, userID: sample.0.userID ?? ""))
            result[keyPath: isRetold ? \.retold : outcome(sample.0, sample.1)] += 1
        }
    }

    private static func outcome(_ signIn: ToldSignIn, _ token: ImportedToken?) -> WritableKeyPath<Result, Int> {
        guard let token else { return \.erased }
        guard token.grantedAt == signIn.signedInAt else {
            guard let known = token.grantedAt, let told = signIn.signedInAt else { return \.outdated }
            return known < told ? \.putBack : \.outdated
        }
        return switch token.answer {
        case .valid: \.accepted
        case .rejected: \.rejected
        case .anotherUser: \.ofAnotherUser
        case .unclear: \.unclear
        case nil: \.unanswered
        }
    }
}
