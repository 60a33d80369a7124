// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import AppleSimulatorKit
import ArgumentParser
import DaemonHarness
import Foundation

/// Lets something happen at the simulated Apple of a `dev`, by its control routes.
struct Trigger: AsyncParsableCommand {
    enum Event: String, CaseIterable, ExpressibleByArgument {
        case consentRevoked = "consent-revoked"
        case accountDeleted = "account-deleted"
        case emailDisabled = "email-disabled"
        case passwordChanged = "password-changed"
        case outage
        case wrongKey = "wrong-key"
        case massRejection = "mass-rejection"
        case recovery
    }

    static let configuration = CommandConfiguration(
        commandName: "trigger",
        abstract: "Lets something happen at the simulated Apple of siwatch-simulator dev.",
        discussion: """
            consent-revoked, account-deleted, email-disabled, password-changed: what a person does. outage: Apple answers 503. wrong-key: \
            Apple no longer knows the app's key. mass-rejection: Apple rejects every good token. The last three last until recovery.
            """
    )

    @Argument(help: "What happens.")
    var event: Event

    @Option(help: "The sub of the person. (default: the last person who has signed in)")
    var user: String?

    @Option(help: "The process number of the dev, if several are at work.")
    var pid: Int32?

    func run() async throws {
        let dev = try DevRecord.find(pid)
        let apple = SimulatedApple(at: dev.apple)
        say("\(try await happen(at: apple, of: dev)) See \(dev.page)")
    }

    /// - Returns: a sentence about what has happened.
    private func happen(at apple: SimulatedApple, of dev: DevRecord) async throws -> String {
        switch event {
        case .consentRevoked:
            return "\(try await notify(RevokeConsent(), at: apple)) has withdrawn consent, and Apple posts it to siwatch."
        case .accountDeleted:
            return "\(try await notify(DeleteAccounts(), at: apple)) has deleted the Apple Account, and Apple posts it to siwatch."
        case .emailDisabled:
            return "\(try await notify(SwitchForwarding(on: false), at: apple)) has switched mail off, and Apple posts it to siwatch."
        case .passwordChanged:
            let person = try await person(at: apple)
            try await apple.send(ChangePasswords(of: .these([person])))
            return "\(person) has a new password. Apple posts nothing: within half a minute siwatch finds that the token is dead."
        case .outage:
            let fault = Fault.answer(503)
            for each in [fault, fault.ofClientCredentials] { try await apple.script(each) }
            return "Apple answers 503, until you trigger recovery. Nobody's state changes."
        case .wrongKey:
            try await apple.send(RevokeKey(id: SimulatedApple.keyID))
            return "Apple no longer knows the key \(SimulatedApple.keyID), until you trigger recovery. Nobody's state changes."
        case .massRejection:
            try await apple.script(Fault.error("invalid_grant").with { $0.grantType = "refresh_token" })
            return "Apple rejects every token, until you trigger recovery. siwatch's breaker opens, and nobody's state changes."
        case .recovery:
            try await apple.send(ClearFaults())
            let file = URL(filePath: dev.folder).appending(path: SimulatedApple.keyFile)
            let key = try ClientKey(id: SimulatedApple.keyID, pem: String(contentsOf: file, encoding: .utf8))
            try await apple.send(RegisterKey(key.registered, for: SimulatedApple.clientIDs[0]))
            return "Apple is well again. siwatch notices at its next questions, within a minute or two."
        }
    }

    private func notify(_ event: some PeopleEvent, at apple: SimulatedApple) async throws -> String {
        let person = try await person(at: apple)
        _ = try await apple.notify(event, users: [person])
        return person
    }

    /// Somebody whose token Apple accepts, so that siwatch knows the person and something can change.
    private func person(at apple: SimulatedApple) async throws -> String {
        if let user { return user }
        let people = try await apple.send(ListUsers()).users.filter { person in
            person.credentials.contains { $0.state == .authorized && $0.liveTokens > 0 }
                && (event != .emailDisabled || person.emailForwarding == "enabled")
        }
        guard let last = people.last else { throw HarnessError("Nobody is left who is signed in.") }
        return last.userID
    }
}
