// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import Hummingbird
import JWTKit
import NIOCore
import Testing

@testable import AppleSimulatorKit

struct NotificationTests {
    private let backend: Backend
    private let simulator: AppleSimulator

    init() async throws { (backend, simulator) = try await startBackend() }

    @Test func byDefaultOneLooksAsOnTheWire() async throws {
        let user = try simulator.createUser()
        let notification = try await simulator.notify(SwitchForwarding(on: false), of: .these([user.userID]))[0]
        let wire = try WireNotification(notification.body)
        #expect(notification.body == #"{"payload":"\#(wire.jws)"}"#)
        #expect(Set(wire.header.keys) == ["alg", "kid"])
        #expect(wire.header["alg"] as? String == "RS256")

        let claims = try await backend.keys().verify(wire.jws, as: NotificationToken.self)
        #expect(claims.iss == "https://appleid.apple.com")
        #expect(claims.aud == "com.example.app")
        #expect(claims.exp == claims.iat + 86_400)
        #expect(abs(Double(claims.iat) - Date().timeIntervalSince1970) < 60)
        #expect(claims.jti == notification.id)
        #expect(claims.jti.count == 22)
        #expect(Set(wire.claims.keys) == ["iss", "aud", "iat", "exp", "jti", "events"])

        let event = try wire.event
        #expect(Set(event.keys) == ["type", "sub", "event_time", "email", "is_private_email"])
        #expect(event["type"] as? String == "email-disabled")
        #expect(event["sub"] as? String == user.userID)
        #expect(event["event_time"] as? Int64 == notification.eventTime.milliseconds)
        #expect(event["email"] as? String == user.email)
        #expect(event["is_private_email"] as? String == "true")
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
        var emission = Emission()
        emission.eventTime = Moment(milliseconds: 1_600_000_000_123)
        emission.issuedAt = Moment(milliseconds: 1_600_000_010_999)
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
    /// An app's endpoint for notifications. It answers with these statuses in turn, and with 200 afterwards.
    private func withEndpoint(
        _ statuses: [HTTPResponse.Status] = [],
        _ body: @escaping @Sendable (_ url: String, _ posts: AsyncStream<String>) async throws -> Void
    ) async throws {
        let (posts, intake) = AsyncStream.makeStream(of: String.self)
        let (ports, announcement) = AsyncStream.makeStream(of: Int.self)
        let (turns, turn) = AsyncStream.makeStream(of: HTTPResponse.Status.self)
        for status in statuses { turn.yield(status) }
        turn.finish()
        let router = Router()
        router.post("notifications") { request, _ in
            intake.yield(String(buffer: try await request.body.collect(upTo: 65_536)))
            return await turns.first { _ in true } ?? .ok
        }
        let server = Application(
            router: router,
            configuration: ApplicationConfiguration(address: .hostname("127.0.0.1", port: 0)),
            onServerRunning: { announcement.yield($0.localAddress?.port ?? 0) }
        )
        // It goes on until the process ends: see `AppleSimulator.start`.
        Task {
            defer { announcement.finish() }
            try await server.run()
        }
        try await body("http://127.0.0.1:\(try #require(await ports.first { _ in true }))/notifications", posts)
    }

    @Test func eachNotificationIsPostedAsItIsUnlessAppleLostIt() async throws {
        try await withEndpoint { url, posts in
            let (backend, simulator) = try await startBackend { $0.delivery = DeliveryTarget(url: url) }
            let users = try simulator.createUsers(2).map(\.userID)
            _ = try await simulator.notify(RevokeConsent(), of: .these([users[0]]), Emission { $0.deliver = false })
            let sent = try await simulator.notify(RevokeConsent(), of: .these([users[1]]))[0]
            var received = posts.makeAsyncIterator()
            #expect(await received.next() == sent.body)
            _ = try Redeliver(id: sent.id).happen(in: simulator)
            #expect(await received.next() == sent.body)
            withExtendedLifetime(backend) {}
        }
    }

    @Test func anythingBut200IsTriedAgain() async throws {
        try await withEndpoint([.internalServerError, .noContent]) { url, posts in
            let (backend, simulator) = try await startBackend {
                $0.delivery = DeliveryTarget(url: url)
                $0.delivery?.pause = .zero
            }
            let sent = try await simulator.notify(FalseEvent(.accountDeleted), of: .these([simulator.createUser().userID]))[0]
            var received = posts.makeAsyncIterator()
            for _ in 1...3 { #expect(await received.next() == sent.body) }
            withExtendedLifetime(backend) {}
        }
    }
}
