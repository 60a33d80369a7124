// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import Crypto

extension RequestKey {
    /// - Parameter parts: what is told. None of them may be mistaken for a part of another.
    init(client: String, key: String, of parts: [String?]) {
        var hash = SHA256()
        for part in parts {
            hash.update(data: Array("\(part?.utf8.count ?? -1):\(part ?? "")".utf8))
        }
        self.init(client: client, key: key, digest: Array(hash.finalize()))
    }
}
