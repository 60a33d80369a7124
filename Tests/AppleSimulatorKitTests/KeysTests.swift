// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Foundation
import JWTKit
import Testing

@testable import AppleSimulatorKit

@Suite(.simulated) struct KeysTests {
    @Test func threeKeysAreShownOfWhichTheLastSigns() async throws {
        let (backend, simulator) = try await startBackend { $0.signingKeyCount = 3 }
        let answer = try await backend.get("/auth/keys")
        #expect(answer.status == 200)
        let keys = try #require(answer.decoded([String: [[String: String]]].self)["keys"])
        #expect(keys.count == 3)
        #expect(keys.compactMap { $0["kid"] } == simulator.world.signingKeys.ids)
        #expect(Set(keys.map { $0["n"] }).count == 3)
        for key in keys {
            #expect(key["kty"] == "RSA" && key["use"] == "sig" && key["alg"] == "RS256" && key["e"] == "AQAB")
            #expect(key["kid"]?.count == 10)
            // 2048 bits are 256 bytes, which are 342 characters.
            #expect(key["n"]?.count == 342)
        }
        let notification = try await simulator.notify(FalseEvent(.consentRevoked), of: .these([simulator.createUser().userID]))[0]
        #expect(try WireNotification(notification.body).kid == keys[2]["kid"])
    }

    @Test func aNewKeySignsAtOnceAndTheFormerOneStays() async throws {
        let user = try simulator.createUser()
        let before = try await simulator.notify(FalseEvent(.consentRevoked), of: .these([user.userID]))[0]
        let ids = try RotateKeys().happen(in: simulator).keyIDs
        #expect(ids.count == 2)
        let after = try await simulator.notify(FalseEvent(.consentRevoked), of: .these([user.userID]))[0]
        #expect(try WireNotification(before.body).kid == ids[0])
        #expect(try WireNotification(after.body).kid == ids[1])
        let keys = try await backend.keys()
        for notification in [before, after] {
            _ = try await keys.verify(WireNotification(notification.body).jws, as: NotificationToken.self)
        }
    }

    @Test func aWithdrawnKeyVerifiesNothingAnyMore() async throws {
        let user = try simulator.createUser()
        let before = try await simulator.notify(FalseEvent(.consentRevoked), of: .these([user.userID]))[0]
        _ = try RotateKeys(keepsFormer: false).happen(in: simulator)
        let keys = try await backend.keys()
        await #expect(throws: JWTError.self) { try await keys.verify(WireNotification(before.body).jws, as: NotificationToken.self) }
    }
}
