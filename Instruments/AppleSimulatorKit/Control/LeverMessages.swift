// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import Crypto

/// Apple publishes a new key and signs with it from now on.
package struct RotateKeys: ControlMessage {
    package static let route = "POST keys/rotation"
    package static let members = CodingKeys.names

    /// Whether `/auth/keys` goes on showing the former keys. It does, if absent.
    var keepsFormer: Bool?

    /// The ids of the published keys; the last one signs.
    package struct Answer: Codable, Sendable {
        package let keyIDs: [String]

        enum CodingKeys: String, CodingKey {
            case keyIDs = "key_ids"
        }
    }

    enum CodingKeys: String, CodingKey, CaseIterable {
        case keepsFormer = "keep_former"
    }

    package func happen(in simulator: AppleSimulator) throws -> Answer {
        let key = try SigningKey()
        return simulator.withWorld { world in
            world.signingKeys.rotate(to: key, keepingFormer: keepsFormer ?? true)
            return Answer(keyIDs: world.signingKeys.ids)
        }
    }
}

/// The developer portal enables a key for the app group of a client.
package struct RegisterKey: ControlMessage {
    package static let route = "POST client-keys"
    package static let members = CodingKeys.names

    let clientID: String
    let keyID: String
    /// As PEM.
    let publicKey: String

    enum CodingKeys: String, CodingKey, CaseIterable {
        case clientID = "client_id"
        case keyID = "key_id"
        case publicKey = "public_key"
    }

    package func happen(in simulator: AppleSimulator) throws -> Done {
        guard let publicKey = try? P256.Signing.PublicKey(pemRepresentation: publicKey) else {
            throw ControlError.malformed("public_key is not the PEM of a P-256 public key.")
        }
        return try simulator.change { try $0.register(RegisteredKey(id: keyID, publicKey: publicKey), for: clientID) }
    }
}

extension RegisterKey {
    package init(_ key: RegisteredKey, for clientID: String) {
        self.init(clientID: clientID, keyID: key.id, publicKey: key.publicKey.pemRepresentation)
    }
}

package struct RevokeKey: ObjectMessage {
    package static let route = "DELETE client-keys/:id"

    package let id: String

    package init(id: String) { self.id = id }

    package func happen(in simulator: AppleSimulator) throws -> Done { try simulator.change { try $0.revokeKey(id) } }
}

/// Apple's time, and how far it is ahead of the machine's.
package struct ReadClock: ControlMessage {
    package static let route = "GET clock"

    package struct Answer: Codable, Sendable {
        package let now: Moment
        /// In milliseconds.
        package let offset: Int64

        enum CodingKeys: String, CodingKey {
            case now
            case offset = "offset_ms"
        }
    }

    package func happen(in simulator: AppleSimulator) -> Answer {
        simulator.withWorld { Answer(now: $0.now, offset: $0.clockOffset.wholeMilliseconds) }
    }
}

package struct SetClock: ControlMessage {
    package static let route = "PUT clock"
    package static let members = CodingKeys.names

    /// How far Apple's clock is to be ahead of the machine's, in milliseconds; 0, if absent.
    let offset: Int64?

    enum CodingKeys: String, CodingKey, CaseIterable {
        case offset = "offset_ms"
    }

    package init(offset: Int64?) { self.offset = offset }

    package func happen(in simulator: AppleSimulator) throws -> ReadClock.Answer {
        let century: Int64 = 3_155_760_000_000
        try CodingKeys.offset.check(offset, in: -century...century)
        simulator.withWorld { $0.clockOffset = .milliseconds(offset ?? 0) }
        return ReadClock().happen(in: simulator)
    }
}

/// Signs the answers to the next refreshes of all living tokens, so that a benchmark measures its subject and not RS256.
///
/// The answers are good for ``SimulatorConfiguration/answerReuse``.
package struct PrepareAnswers: ControlMessage {
    package static let route = "POST preparations"

    package struct Answer: Codable, Sendable {
        package let prepared: Int
    }

    package func happen(in simulator: AppleSimulator) async throws -> Answer {
        let drafts = simulator.withWorld { $0.draftAnswers(now: $0.now) }
        let answers = try await drafts.concurrentMap { (draft: $0, body: try $0.signed()) }
        simulator.withWorld { world in
            for answer in answers { world.keep(answer.body, of: answer.draft) }
        }
        return Answer(prepared: answers.count)
    }
}

/// The counters, with the shortest gap between refreshes.
package struct ReadCounters: ControlMessage {
    package static let route = "GET counters"

    package init() {}

    package func happen(in simulator: AppleSimulator) -> Counters {
        simulator.withWorld { world in
            var counters = world.counters
            counters.shortestRefreshGap = world.shortestRefreshGap?.wholeMilliseconds
            return counters
        }
    }
}

package struct ResetCounters: ControlMessage {
    package static let route = "DELETE counters"

    package init() {}

    package func happen(in simulator: AppleSimulator) -> Done { simulator.change { $0.counters.reset() } }
}
