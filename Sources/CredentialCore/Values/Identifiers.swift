// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package struct CredentialID: Sendable, Hashable, Codable {
    package var clientID: String
    package var userID: String

    package init(clientID: String, userID: String) {
        self.clientID = clientID
        self.userID = userID
    }
}

/// One user in one app group.
package struct AppUserID: Sendable, Hashable, Encodable {
    package var app: String
    package var userID: String

    package init(app: String, userID: String) {
        self.app = app
        self.userID = userID
    }

    /// Compares bytes, as the tables do. `String` would take two spellings of one character for equal.
    package static func == (left: AppUserID, right: AppUserID) -> Bool {
        left.userID.utf8.elementsEqual(right.userID.utf8) && left.app.utf8.elementsEqual(right.app.utf8)
    }

    package func hash(into hasher: inout Hasher) {
        var (app, userID) = (app, userID)
        app.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
        userID.withUTF8 { hasher.combine(bytes: UnsafeRawBufferPointer($0)) }
    }
}

/// The shape that every `sub` of Apple's has had for years. Apple does not promise it, so siwatch refuses nothing that a backend tells.
package enum AppleUserID {
    package static let example = "001234.0123456789abcdef0123456789abcdef.0815"

    /// Whether these bytes are six digits, a dot, 32 lowercase hexadecimal digits, a dot and four digits.
    package static func isLike(_ bytes: some Collection<UInt8>) -> Bool {
        guard bytes.count == example.utf8.count else { return false }
        return zip(bytes, 0...).allSatisfy { byte, place in
            switch place {
            case 6, 39: byte == UInt8(ascii: ".")
            case 7..<39: (0x30...0x39).contains(byte) || (0x61...0x66).contains(byte)
            default: (0x30...0x39).contains(byte)
            }
        }
    }
}

/// The sender of a request to Apple: the client, the key that signed its secret, their team, and the load of the configuration.
package struct ClientIdentity: Sendable, Hashable {
    package var clientID: String
    package var keyID: String
    /// Nil if nothing was signed.
    package var teamID: String?
    /// Which load of the configuration; 0 is the first.
    package var load: Int

    package init(clientID: String, keyID: String, teamID: String? = nil, load: Int = 0) {
        self.clientID = clientID
        self.keyID = keyID
        self.teamID = teamID
        self.load = load
    }
}

package struct AppClients: Sendable, Equatable {
    package var name: String
    package var clientIDs: [String]

    package init(name: String, clientIDs: [String]) {
        self.name = name
        self.clientIDs = clientIDs
    }
}

/// The name of an enum's case in snake case, without its values: a word for logs.
package func caseName(of value: some Any) -> String {
    "\(value)".prefix { $0 != "(" }.reduce("") { $0 + ($1.isUppercase ? "_\($1.lowercased())" : "\($1)") }
}

extension Sequence<UInt8> {
    /// The 64 bits of FNV-1a, which go on from those of earlier bytes. Every release and replica makes the same.
    package func fnv1a(after hash: UInt64 = 0xcbf2_9ce4_8422_2325) -> UInt64 { reduce(hash) { ($0 ^ UInt64($1)) &* 0x100_0000_01b3 } }
}
