// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import DaemonHarness
import Foundation
import JWTKit
import Synchronization
import Testing

@testable import AppleSimulatorKit

@Suite(.simulated) struct NotificationTests {
    @Test func byDefaultOneLooksAsOnTheWire() async throws {
        let user = try simulator.createUser()
        let notification = try await simulator.notify(SwitchForwarding(on: false), of: .these([user.userID]))[0]
        let wire = try WireNotification(notification.body)
        #expect(notification.body == #"{"payload":"\#(wire.jws)"}"#)
        #expect(Set(wire.header.keys) == ["alg", "kid"] && wire.header["alg"] as? String == "RS256")

        let claims = try await backend.keys().verify(wire.jws, as: NotificationToken.self)
        #expect(claims.iss == "https://appleid.apple.com" && claims.aud == "com.example.app")
        #expect(claims.exp == claims.iat + 86_400 && abs(Double(claims.iat) - Date().timeIntervalSince1970) < 60)
        #expect(claims.jti == notification.id && claims.jti.count == 22)
        #expect(Set(wire.claims.keys) == ["iss", "aud", "iat", "exp", "jti", "events"])

        var event = try wire.event
        #expect(event.removeValue(forKey: "event_time") as? Int64 == notification.eventTime.milliseconds)
        let texts = ["type": "email-disabled", "sub": user.userID, "email": user.email, "is_private_email": "true"]
        #expect(event as? [String: String] == texts.compactMapValues { $0 } && event.count == 4)
    }

    @Test func onlyThoseAboutMailCarryAnAddress() async throws {
        let user = try simulator.createUser()
        let notification = try await simulator.notify(RevokeConsent(), of: .these([user.userID]))[0]
        #expect(try Set(WireNotification(notification.body).event.keys) == ["type", "sub", "event_time"])
    }

    @Test func itCanLookAsInApplesDocuments() async throws {
        let documented = Emission {
            ($0.eventsAsObject, $0.eventTimeInSeconds, $0.privateEmail) = (true, true, .bool)
            ($0.deletionSpelling, $0.audience) = (.accountDelete, .primaryAppID)
        }
        let user = try simulator.createUser(SignInOptions(clientID: "com.example.web"))
        let mail = try await simulator.notify(SwitchForwarding(on: false), of: .these([user.userID]), documented)[0]
        let wire = try WireNotification(mail.body)
        let event = try #require(wire.claims["events"] as? [String: Any])
        #expect(event["event_time"] as? Int64 == mail.eventTime.seconds)
        #expect(event["is_private_email"] as? Bool == true)
        #expect(wire.claims["aud"] as? String == "com.example.app")

        let deletion = try await simulator.notify(DeleteAccounts(), of: .these([user.userID]), documented)[0]
        #expect(deletion.type == "account-delete")
        #expect(try WireNotification(deletion.body).event["type"] as? String == "account-delete")
    }

    @Test func theAudienceIsTheClientOfTheLatestSignInUnlessToldOtherwise() async throws {
        let user = try simulator.createUser()
        _ = try simulator.signIn(user.userID, SignInOptions(clientID: "com.example.web"))
        #expect(try await simulator.notify(FalseEvent(.consentRevoked), of: .these([user.userID]))[0].audience == "com.example.web")
        let emission = Emission { $0.audience = .exactly("com.stranger") }
        let strange = try await simulator.notify(FalseEvent(.consentRevoked), of: .these([user.userID]), emission)[0]
        #expect(try WireNotification(strange.body).claims["aud"] as? String == "com.stranger")
    }

    @Test func oneCanComeLateOrBeOfAnUnknownType() async throws {
        let user = try simulator.createUser()
        let emission = Emission {
            ($0.eventTime, $0.issuedAt) = (Moment(milliseconds: 1_600_000_000_123), Moment(milliseconds: 1_600_000_010_999))
        }
        let event = FalseEvent(NotificationType(rawValue: "consent-withdrawn"))
        let notification = try await simulator.notify(event, of: .these([user.userID]), emission)[0]
        let wire = try WireNotification(notification.body)
        #expect(try wire.event["event_time"] as? Int64 == 1_600_000_000_123)
        #expect(wire.claims["iat"] as? Int64 == 1_600_000_010)
        #expect(notification.type == "consent-withdrawn")
        #expect(try simulator.world.truth(of: user.userID).credentials[0].state == .authorized)
    }

    @Test(arguments: [Emission.Signature.forged, .unknownKey])
    func neitherAForgedOneNorOneUnderAnUnknownKeyVerifies(signature: Emission.Signature) async throws {
        let user = try simulator.createUser()
        let emission = Emission { $0.signature = signature }
        let notification = try await simulator.notify(FalseEvent(.consentRevoked), of: .these([user.userID]), emission)[0]
        let wire = try WireNotification(notification.body)
        #expect((wire.kid == simulator.world.signingKeys.ids.last) == (signature == .forged))
        let keys = try await backend.keys()
        await #expect(throws: JWTError.self) { try await keys.verify(wire.jws, as: NotificationToken.self) }
    }

    @Test func aSecondDeliveryHasTheSameBytesAndASecondEventAnotherName() async throws {
        let user = try simulator.createUser()
        let first = try await simulator.notify(RevokeConsent(), of: .these([user.userID]))[0]
        #expect(try Redeliver(id: first.id).happen(in: simulator).notifications == [first])
        let emission = Emission { $0.eventTime = first.eventTime }
        let second = try await simulator.notify(FalseEvent(.consentRevoked), of: .these([user.userID]), emission)[0]
        #expect(second.id != first.id)
        #expect(second.eventTime == first.eventTime)
        #expect(simulator.world.notifications.all == [first, second])
        #expect(throws: SimulatorError.unknownNotification("x")) { try Redeliver(id: "x").happen(in: simulator) }
    }

    @Test func manyAreSignedInTheOrderOfThePeopleTheyAreAbout() async throws {
        let users = try simulator.createUsers(200).map(\.userID)
        let notifications = try await simulator.notify(RevokeConsent(), of: .these(users))
        #expect(notifications.map(\.userID) == users)
        #expect(Set(notifications.map(\.id)).count == 200)
    }
}

struct DeliveryTests {
    @Test func eachNotificationIsPostedAsItIsUnlessAppleLostIt() async throws {
        let app = HookReceiver()
        try await app.serve { port in
            let target = DeliveryTarget(url: "http://127.0.0.1:\(port)/notifications")
            let (_, simulator) = try await startBackend { $0.delivery = target }
            let users = try simulator.createUsers(2).map(\.userID)
            _ = try await simulator.notify(RevokeConsent(), of: .these([users[0]]), Emission { $0.deliver = false })
            let sent = try await simulator.notify(RevokeConsent(), of: .these([users[1]]))[0]
            try await eventually { !app.hooks.isEmpty }
            _ = try Redeliver(id: sent.id).happen(in: simulator)
            try await eventually { app.hooks.count > 1 }
            #expect(app.hooks.map(\.body) == [sent.body, sent.body] && app.hooks.map(\.path) == ["/notifications", "/notifications"])
        }
    }

    @Test func anythingBut200IsTriedAgain() async throws {
        let app = HookReceiver()
        let asked = Atomic(0)
        app.answer { _ in [500, 204, 200][min(asked.add(1, ordering: .relaxed).oldValue, 2)] }
        try await app.serve { port in
            let (_, simulator) = try await startBackend {
                $0.delivery = DeliveryTarget(url: "http://127.0.0.1:\(port)/notifications")
                $0.delivery?.pause = .zero
            }
            let sent = try await simulator.notify(FalseEvent(.accountDeleted), of: .these([simulator.createUser().userID]))[0]
            try await eventually { app.hooks.count >= 3 }
            #expect(app.hooks.map(\.body) == [sent.body, sent.body, sent.body])
        }
    }
}
