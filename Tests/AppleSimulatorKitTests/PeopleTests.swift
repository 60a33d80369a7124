// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Testing

@testable import AppleSimulatorKit

@Suite(.simulated) struct PeopleTests {
    @Test func newUsersHaveApplesShapes() async throws {
        let user = try simulator.createUser()
        #expect(user.userID.wholeMatch(of: /[0-9]{6}\.[0-9a-f]{32}\.[0-9]{4}/) != nil)
        #expect(user.email?.wholeMatch(of: /[a-z0-9]{10}@(privaterelay\.appleid|private\.icloud)\.com/) != nil)
        #expect(user.emailIsPrivate == true)
        #expect(user.refreshToken?.wholeMatch(of: /r[0-9a-f]{32}\.0\.[a-z]{4}\.[A-Za-z0-9_-]{22}/) != nil)
        #expect(try simulator.createUser(address: .own).emailIsPrivate == false)
        #expect(try simulator.createUser(address: .none).email == nil)
        let silent = try simulator.createUser(SignInOptions(credential: .nothing))
        #expect(silent.refreshToken == nil && silent.code == nil)
    }

    @Test func tenThousandUsersAreAllDifferent() async throws {
        let users = try simulator.createUsers(10_000)
        #expect(Set(users.map(\.userID)).count == 10_000)
        #expect(Set(users.map(\.refreshToken)).count == 10_000)
        #expect(simulator.world.truth.count == 10_000)
    }

    @Test func aRevocationKillsEveryTokenOfTheAppGroupAndASignInBringsTheSameUserBack() async throws {
        let user = try simulator.createUser()
        let web = try simulator.signIn(user.userID, SignInOptions(clientID: "com.example.web"))
        let revoked = try await simulator.notify(RevokeConsent(), of: .these([user.userID]))[0]
        #expect(try await backend.refresh(user.refreshToken)["error"] == "invalid_grant")
        #expect(try await backend.refresh(web.refreshToken, clientID: "com.example.web")["error"] == "invalid_grant")
        for credential in try simulator.world.truth(of: user.userID).credentials {
            #expect(credential.state == .revoked && credential.reason == .consentRevoked)
            #expect(credential.changedAt == revoked.eventTime)
            #expect(credential.liveTokens == 0)
        }
        await #expect(throws: SimulatorError.notAuthorized(user.userID)) {
            try await simulator.notify(RevokeConsent(), of: .these([user.userID]))
        }

        let again = try simulator.signIn(user.userID)
        #expect(again.userID == user.userID && again.refreshToken != user.refreshToken)
        #expect(try await backend.refresh(again.refreshToken).status == 200)
        #expect(try await backend.refresh(user.refreshToken)["error"] == "invalid_grant")
        let truth = try simulator.world.truth(of: user.userID)
        #expect(truth.credentials.map(\.clientID) == ["com.example.app", "com.example.web"])
        #expect(truth.credentials.map(\.state) == [.authorized, .revoked])
        #expect(truth.credentials[0].changedAt == again.grantedAt)
    }

    @Test func consentIsPerAppGroupAndAnAccountIsNot() async throws {
        let otherKey = ClientKey.generate(id: "OTHER12345")
        let (backend, simulator) = try await startBackend {
            $0.groups.append(AppGroup(clientIDs: ["com.example.other"], keys: [otherKey.registered]))
        }
        let other = Backend(baseURL: backend.baseURL, key: otherKey, clientID: "com.example.other")
        let user = try simulator.createUser()
        let there = try simulator.signIn(user.userID, SignInOptions(clientID: "com.example.other"))
        let revoked = try await simulator.notify(RevokeConsent(), of: .these([user.userID]), clientID: "com.example.app")
        #expect(revoked.map(\.audience) == ["com.example.app"])
        #expect(try await backend.refresh(user.refreshToken)["error"] == "invalid_grant")
        #expect(try await other.refresh(there.refreshToken).status == 200)

        _ = try simulator.signIn(user.userID)
        let deleted = try await simulator.notify(DeleteAccounts(), of: .these([user.userID]))
        #expect(deleted.map(\.audience) == ["com.example.app", "com.example.other"])
        #expect(try await other.refresh(there.refreshToken)["error"] == "invalid_grant")
    }

    @Test func deletingAnAccountIsTheEnd() async throws {
        let user = try simulator.createUser()
        #expect(try await simulator.notify(DeleteAccounts(), of: .these([user.userID]))[0].type == "account-deleted")
        #expect(try await backend.refresh(user.refreshToken)["error"] == "invalid_grant")
        let truth = try simulator.world.truth(of: user.userID)
        #expect(truth.isAccountDeleted)
        #expect(truth.credentials[0].state == .notFound && truth.credentials[0].reason == .accountDeleted)
        #expect(throws: SimulatorError.accountDeleted(user.userID)) { try simulator.signIn(user.userID) }
        await #expect(throws: SimulatorError.accountDeleted(user.userID)) {
            try await simulator.notify(DeleteAccounts(), of: .these([user.userID]))
        }
    }

    @Test func mailGoesOffAndOnAndNoTokenCares() async throws {
        let user = try simulator.createUser()
        #expect(try await simulator.notify(SwitchForwarding(on: false), of: .these([user.userID]))[0].type == "email-disabled")
        #expect(try simulator.world.truth(of: user.userID).emailForwarding == "disabled")
        #expect(try await backend.refresh(user.refreshToken).status == 200)
        #expect(try await simulator.notify(SwitchForwarding(on: true), of: .these([user.userID]))[0].type == "email-enabled")
        #expect(try simulator.world.truth(of: user.userID).emailForwarding == "enabled")

        let own = try simulator.createUser(address: .own)
        await #expect(throws: SimulatorError.noRelayAddress(own.userID)) {
            try await simulator.notify(SwitchForwarding(on: false), of: .these([own.userID]))
        }
        #expect(try simulator.world.truth(of: own.userID).emailForwarding == nil)
    }

    @Test func aNewPasswordKillsTheTokensSilentlyAndLeavesTheConsent() async throws {
        let user = try simulator.createUser()
        _ = try ChangePasswords(of: .these([user.userID])).happen(in: simulator)
        #expect(try await backend.refresh(user.refreshToken)["error"] == "invalid_grant")
        #expect(simulator.world.notifications.all.isEmpty)
        #expect(try simulator.world.truth(of: user.userID).credentials[0].reason == .tokenRejected)
        _ = try await simulator.notify(RevokeConsent(), of: .these([user.userID]))
        #expect(try simulator.world.truth(of: user.userID).credentials[0].reason == .consentRevoked)
    }

    @Test func whereAnyWillDoItHappensToTheFirstToWhomItCan() async throws {
        let users = try simulator.createUsers(3).map(\.userID)
        #expect(try await simulator.notify(RevokeConsent(), of: .any(2)).map(\.userID) == Array(users[..<2]))
        #expect(try await simulator.notify(DeleteAccounts(), of: .any(1)).map(\.userID) == [users[2]])
        await #expect(throws: SimulatorError.tooFewUsers(0)) { try await simulator.notify(RevokeConsent(), of: .any(1)) }
    }

    @Test func nothingHappensToTheFirstIfItCannotHappenToTheLast() async throws {
        let user = try simulator.createUser()
        await #expect(throws: SimulatorError.unknownUser("nobody")) {
            try await simulator.notify(RevokeConsent(), of: .these([user.userID, "nobody"]))
        }
        #expect(throws: SimulatorError.unknownClient("nobody")) { try simulator.signIn(user.userID, SignInOptions(clientID: "nobody")) }
        #expect(try await backend.refresh(user.refreshToken).status == 200)
        #expect(simulator.world.notifications.all.isEmpty)
    }
}
