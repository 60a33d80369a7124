// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto
import Foundation
import Testing

@testable import AppleSimulatorKit

@Suite(.simulated) struct ControlRouteTests {
    private static func signIns(in answer: Answer) throws -> [SignIn] { try answer.decoded([String: [SignIn]].self)["sign_ins"] ?? [] }

    private static func notifications(in answer: Answer) throws -> [SignedNotification] {
        try answer.decoded([String: [SignedNotification]].self)["notifications"] ?? []
    }

    @Test func usersAreCreatedInBulkAndSignInAgain() async throws {
        let people = #"{"count":3,"client_id":"com.example.web","credential":"authorization_code","granted_at":1600000000000}"#
        let made = try await backend.post("/simulator/users", json: people)
        #expect(made.status == 200)
        let signIns = try Self.signIns(in: made)
        #expect(signIns.count == 3)
        #expect(signIns.allSatisfy { $0.clientID == "com.example.web" && $0.code != nil && $0.refreshToken == nil })
        #expect(signIns[0].grantedAt == Moment(milliseconds: 1_600_000_000_000))

        let again = try await backend.post("/simulator/sign-ins", json: #"{"user_ids":["\#(signIns[1].userID)"]}"#)
        let signIn = try Self.signIns(in: again)[0]
        #expect(signIn.userID == signIns[1].userID)
        #expect(try await backend.refresh(signIn.refreshToken).status == 200)
    }

    @Test func theAppsOwnWordsComeBackWithASignIn() async throws {
        let words = #""credential":"authorization_code","redirect_uri":"https://example.com/back","nonce":"n""#
        let made = try await Self.signIns(in: backend.post("/simulator/users", json: "{\(words)}"))[0]
        let again = try await Self.signIns(in: backend.post("/simulator/sign-ins", json: #"{"any":1,\#(words)}"#))[0]
        for signIn in [made, again] {
            #expect(signIn.redirectURI == "https://example.com/back" && signIn.nonce == "n")
            let answer = try await backend.redeem(signIn.code, redirectURI: signIn.redirectURI)
            #expect(try answer.claims["nonce"] as? String == "n")
        }
    }

    @Test func aBodyMayBeAbsentWhereNothingInItIsRequired() async throws {
        #expect(try await Self.signIns(in: backend.post("/simulator/users")).count == 1)
    }

    @Test func peopleRevokeDeleteAndSwitchTheirMailAndTheAnswerIsWhatAppleWouldSend() async throws {
        let users = try simulator.createUsers(3).map(\.userID)
        func notify(_ path: String, _ json: String) async throws -> [SignedNotification] {
            try await Self.notifications(in: backend.post("/simulator/\(path)", json: json))
        }
        let off = #"{"any":1,"enabled":false,"event_time":1600000000001,"is_private_email":"bool"}"#
        let mail = try await notify("mail-forwarding", off)
        #expect(mail.map(\.type) == ["email-disabled"])
        let event = try WireNotification(mail[0].body).event
        #expect(event["event_time"] as? Int64 == 1_600_000_000_001)
        #expect(event["is_private_email"] as? Bool == true)

        let two = #"{"user_ids":["\#(users[0])","\#(users[1])"],"audience":"primary","events_as_object":true}"#
        let revoked = try await notify("consent-revocations", two)
        #expect(revoked.map(\.userID) == Array(users[..<2]))
        #expect(try WireNotification(revoked[0].body).claims["events"] is [String: Any])

        let deleted = try await notify("account-deletions", #"{"user_ids":["\#(users[2])"],"deletion_spelling":"account-delete"}"#)
        #expect(deleted.map(\.type) == ["account-delete"])

        #expect(try await notify("notifications", #"{"user_ids":["\#(users[0])"],"type":"x"}"#).map(\.type) == ["x"])

        let all = try await Self.notifications(in: backend.get("/simulator/notifications"))
        #expect(all.count == 5)
        let again = try await backend.post("/simulator/notifications/\(all[0].id)/redelivery")
        #expect(try Self.notifications(in: again) == [all[0]])
    }

    @Test func passwordsChange() async throws {
        let user = try simulator.createUser()
        #expect(try await backend.post("/simulator/password-changes", json: #"{"any":1}"#).text == "{}\n")
        #expect(try await backend.refresh(user.refreshToken)["error"] == "invalid_grant")
    }

    @Test func theTruthCanBeAskedFor() async throws {
        let user = try simulator.createUser()
        let truth = try await backend.get("/simulator/users/\(user.userID)")
        #expect(try truth.decoded(UserTruth.self) == simulator.world.truth(of: user.userID))
        let users = try await backend.get("/simulator/users").decoded([String: [UserTruth]].self)["users"]
        #expect(users?.map(\.userID) == [user.userID])
    }

    @Test func keysRotateClientKeysComeAndGoAndTheClockMoves() async throws {
        let former = simulator.world.signingKeys.ids
        _ = try await backend.post("/simulator/keys/rotation", json: #"{"keep_former":false}"#)
        #expect(simulator.world.signingKeys.ids.count == 1 && simulator.world.signingKeys.ids != former)

        let user = try simulator.createUser()
        let new = ClientKey.generate(id: "NEWKEY1234")
        let pem = new.privateKey.publicKey.pemRepresentation.replacing("\n", with: "\\n")
        let json = #"{"client_id":"com.example.app","key_id":"NEWKEY1234","public_key":"\#(pem)"}"#
        #expect(try await backend.post("/simulator/client-keys", json: json).status == 200)
        #expect(try await Backend(baseURL: backend.baseURL, key: new).refresh(user.refreshToken).status == 200)
        #expect(try await backend.delete("/simulator/client-keys/\(backend.key.id)").status == 200)
        #expect(try await backend.refresh(user.refreshToken)["error"] == "invalid_client")

        let time = try await backend.put("/simulator/clock", json: #"{"offset_ms":3600000}"#)
        #expect(try time.decoded([String: Int64].self)["now"] ?? 0 > Moment.now().milliseconds + 3_500_000)
        #expect(try await backend.get("/simulator/clock").decoded([String: Int64].self)["offset_ms"] == 3_600_000)
    }

    @Test func answersAreSignedAhead() async throws {
        _ = try simulator.createUsers(40)
        #expect(try await backend.post("/simulator/preparations").text == "{\"prepared\":40}\n")
    }

    @Test func faultsComeAndGo() async throws {
        let json = #"""
            {"endpoint":"keys","count":2,"delay_ms":1,"loses":"answer","status":503,"headers":{"A":"b"},"body":"x","padding":1}
            """#
        let id = try await backend.post("/simulator/faults", json: json)
        #expect(id.text == "{\"id\":1}\n")
        let answer = try await backend.get("/auth/keys")
        #expect(answer.status == 503 && answer.text == "x " && answer.header("A") == "b")
        let faults = try #"{"faults":[{"fault":\#(Self.sorted(json)),"id":1,"remaining":1}]}"# + "\n"
        #expect(try await backend.get("/simulator/faults").text == faults)
        #expect(try await backend.delete("/simulator/faults/1").status == 200)
        #expect(try await backend.delete("/simulator/faults/1").status == 404)
        _ = try await backend.post("/simulator/faults", json: #"{"connection":"hang"}"#)
        #expect(try await backend.delete("/simulator/faults").status == 200)
        #expect(try await backend.get("/auth/keys").status == 200)
    }

    @Test func anIDTokenOutOfTheOrdinaryCanBeOrdered() async throws {
        let user = try simulator.createUser(SignInOptions(credential: .code))
        let fault = Fault.idToken(.missing, count: 1).of(user.userID)
        let json = #"""
            {"endpoint":"token","grant_type":"authorization_code","user_ids":["\#(user.userID)"],"count":1,"id_token":"missing"}
            """#
        #expect(try await backend.post("/simulator/faults", json: json).status == 200)
        #expect(simulator.world.faults.all.map(\.fault) == [fault])
        #expect(try await backend.get("/simulator/faults").text.contains(#""id_token":"missing""#))
        #expect(try await backend.redeem(user.code)["id_token"] == nil)
        #expect(simulator.world.faults.all.isEmpty)
    }

    private static func sorted(_ json: String) throws -> String {
        let object = try JSONSerialization.jsonObject(with: Data(json.utf8))
        return String(decoding: try JSONSerialization.data(withJSONObject: object, options: .sortedKeys), as: UTF8.self)
    }

    @Test func countersCanBeReadAndReset() async throws {
        let user = try simulator.createUser()
        _ = try await backend.refresh(user.refreshToken)
        simulator.withWorld { $0.clockOffset = .seconds(61) }
        _ = try await backend.refresh(user.refreshToken)
        _ = try await backend.redeem("c0123")
        struct Wire: Decodable {
            let requests: [String: [String: Int]]
            let codes: CodeCounters
            let revocations: [String: Int]
            let shortestRefreshGap: Int64

            enum CodingKeys: String, CodingKey {
                case requests, codes, revocations
                case shortestRefreshGap = "shortest_refresh_gap_ms"
            }
        }
        let counters = try await backend.get("/simulator/counters").decoded(Wire.self)
        #expect(counters.requests == ["token": ["200": 2, "400": 1]])
        #expect(counters.codes.redeemed == 0 && counters.codes.refused == [.dead: 1])
        #expect(counters.revocations == ["asked": 0, "effective": 0])
        #expect(counters.shortestRefreshGap >= 61_000)
        #expect(try await backend.delete("/simulator/counters").status == 200)
        #expect(simulator.world.counters.requests.isEmpty)
    }

    @Test(arguments: [
        SignUp(3, address: .own, options) as any ControlMessage, SignInAgain(.any(1), options), ChangePasswords(of: .these(["x"])),
        EventMessage(SwitchForwarding(on: true), of: .any(2), clientID: "c", emission),
        EventMessage(FalseEvent(NotificationType(rawValue: "x")), of: .these([]), emission), RotateKeys(keepsFormer: false),
        RegisterKey(clientID: "c", keyID: "k", publicKey: "x"), SetClock(offset: -1000),
        Fault.error("x", count: 1).of("u").afterObeying(),
    ])
    func aMessageIsReadAsItWasWritten(message: any ControlMessage) throws {
        let body = try #require(message.body)
        #expect(try type(of: message).read(body, id: nil).body == body)
    }

    private static let options = SignInOptions(clientID: "c", credential: .code, redirectURI: "r", nonce: "n", at: Moment(milliseconds: 1))

    private static let emission = Emission {
        $0.eventTime = Moment(milliseconds: 1)
        $0.issuedAt = Moment(milliseconds: 2)
        $0.deliver = false
        $0.eventsAsObject = true
        $0.eventTimeInSeconds = true
        $0.privateEmail = .absent
        $0.deletionSpelling = .accountDelete
        $0.audience = .primaryAppID
        $0.signature = .unknownKey
    }

    @Test(arguments: [
        ("/simulator/users", #"{"cuont":3}"#, 400, "Unknown member cuont."),
        ("/simulator/users", #"{"count":"3"}"#, 400, "count: Expected to decode Int"),
        ("/simulator/users", #"{"client_id":"x"}"#, 404, "No app group has the client x."),
        ("/simulator/users", "nonsense", 400, "The given data was not valid JSON."),
        ("/simulator/sign-ins", "{}", 400, "The member user_ids is missing."),
        ("/simulator/consent-revocations", #"{"any":1}"#, 409, "Only 0 users can do that."),
        ("/simulator/consent-revocations", #"{"user_ids":["x"]}"#, 404, "There is no user x."),
        ("/simulator/faults", #"{"connection":"cut"}"#, 400, "An answer can only be cut"),
        ("/simulator/faults", #"{"id_token":"expired","status":200}"#, 400, "An id_token stands in Apple's own answer"),
        ("/simulator/faults", #"{"id_token":"x"}"#, 400, "id_token: Cannot initialize"),
        ("/simulator/users", #"{"count":-1}"#, 400, "count: It lies outside 0...10000000."),
        ("/simulator/faults", #"{"status":99}"#, 400, "status: It lies outside 200...599."),
        ("/simulator/client-keys", #"{"client_id":"c","key_id":"k","public_key":"x"}"#, 400, "public_key is not"),
    ])
    func aMistakeGetsASentence(path: String, json: String, status: UInt, sentence: String) async throws {
        let answer = try await backend.post(path, json: json)
        #expect(answer.status == status)
        #expect(answer["error"]?.contains(sentence) == true, "\(answer.text)")
    }
}
