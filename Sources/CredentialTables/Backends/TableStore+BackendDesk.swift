// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

package import CredentialCore

extension TableStore {
    package func append(_ requests: [BackendRequest], at now: Timestamp) async throws -> [AppendedRequest] {
        while true {
            do {
                return try await transaction { connection in try requests.map { try connection.append($0, at: now) } }
            } catch is KeyTaken {
                // The replica that took it has committed, so the next try finds its row.
            }
        }
    }

    package func settledSignIns(among ids: Set<Int64>) async throws -> [Int64] {
        try await query { connection in
            let isAsked = try connection.dialect.isOne("grant_id", of: ids.sorted())
            return try connection.fetchAll("SELECT grant_id FROM grant_log WHERE \(isAsked)").map { $0.integer(at: 0) }
        }
    }

    package func signInOutcomes(_ ids: [Int64]) async throws -> [Int64: SignInOutcome] {
        try await query { connection in
            try ids.reduce(into: [:]) { outcomes, id in outcomes[id] = try connection.signInOutcome(id) }
        }
    }

    package func deletionOutcome(_ id: Int64) async throws -> DeletionOutcome? {
        try await query { connection -> DeletionOutcome? in
            let rows = try connection.fetchAll(
                """
                SELECT requested_at, outcome, client_id, reason, settled_at, user_id FROM revocation_outcome WHERE id = \(id)
                 ORDER BY settled_at, client_id
                """
            )
            guard let first = rows.first else { return nil }
            let receipts = rows.filter { !$0.isNull(at: 4) }.map {
                DeletionOutcome.Receipt(clientID: $0[2], outcome: $0[1], reason: $0[3], settledAt: $0[4])
            }
            let reference = RowReference(id: id, time: first.time(at: 0) ?? .earliest)
            let (isWaiting, isHeld) = (receipts.count < rows.count, rows.contains { $0.text(at: 1) == "held" })
            return DeletionOutcome(row: reference, userID: first[5], isWaiting: isWaiting, isHeld: isHeld, receipts: receipts)
        }
    }

    package func userState(of userID: String, in app: String) async throws -> UserState? {
        try await query { try $0.userState(of: userID, in: app) }
    }

    package func changes(after id: Int64, of app: String?, upTo limit: Int) async throws -> ChangePage {
        try await query { connection in
            func newest(_ condition: SQL) throws -> RowReference? {
                try connection.fetchOne("SELECT id, recorded_at FROM credential_change \(condition) ORDER BY id DESC LIMIT 1").map {
                    RowReference(id: $0[0], time: $0[1])
                }
            }
            let (newest, last) = (try newest(""), try newest("WHERE id <= \(id)"))
            let oldest = newest == nil ? 1 : try connection.fetchInt("SELECT MIN(id) FROM credential_change")
            let isOfApp: SQL = app.map { "AND app = \($0)" } ?? ""
            let isNext: SQL = "c WHERE id > \(id) \(isOfApp) ORDER BY id LIMIT \(limit)"
            let next: SQL = "SELECT \(sql: PublishedChange.columns) FROM credential_change \(isNext)"
            let changes: [PublishedChange] = try id >= newest?.id ?? 0 ? [] : connection.fetchValues(next)
            return ChangePage(changes: changes, oldest: Int64(oldest), newest: newest ?? .beforeAll, last: last)
        }
    }
}

/// Another replica has just used the key.
private struct KeyTaken: Error {}

extension ToldSignIn {
    /// Nil with a code, because the backend knows the user from Apple's answer only.
    fileprivate var toldUser: String? { if case .code = proof { nil } else { userID } }
}

extension TableConnection {
    fileprivate func append(_ request: BackendRequest, at now: Timestamp) throws -> AppendedRequest {
        switch request {
        case .notification(let body):
            let row = try insert("notification_queue (payload) VALUES (\(dialect.payload(body)))")
            return .row(RowReference(id: row, time: now))
        case .signIn(let signIn, let key):
            let time = signIn.signedInAt ?? now
            return try append(under: key, at: now, of: signIn.toldUser, seenBy: "granted_at FROM grant_outcome") {
                RowReference(id: try insert(signIn, at: time), time: time, userID: signIn.toldUser)
            }
        case .deletion(let credential, let requestedAt, let key):
            // Dated ahead, it would name sign-ins between now and siwatch's first look at it.
            let time = min(requestedAt ?? now, now)
            return try append(under: key, at: now, of: credential.userID, seenBy: "requested_at FROM revocation_outcome") {
                let values: SQL = "\(credential.clientID), \(credential.userID), \(time)"
                let row = try insert("revocation_queue (client_id, user_id, requested_at) VALUES (\(values))")
                return RowReference(id: row, time: time, userID: credential.userID)
            }
        }
    }

    /// - Parameter view: SQL: the row's time and the view that has it, in its queue and later in its log.
    private func append(
        under key: RequestKey?,
        at now: Timestamp,
        of userID: String? = nil,
        seenBy view: String,
        _ insert: () throws -> RowReference
    ) throws -> AppendedRequest {
        guard let key else { return .row(try insert()) }
        if let known = try fetchOne("SELECT row_id, digest FROM request_key WHERE client = \(key.client) AND key = \(key.key)") {
            guard known.bytes(at: 1) == key.digest else { return .keyUsed }
            let id = known.integer(at: 0)
            let time = try fetchOne("SELECT \(sql: view) WHERE id = \(id) LIMIT 1")?.time(at: 0)
            return time.map { .row(RowReference(id: id, time: $0, userID: userID)) } ?? .erased
        }
        let row = try insert()
        let isNew = try change(
            """
            INSERT INTO request_key (client, key, digest, row_id, told_at)
            VALUES (\(key.client), \(key.key), \(key.digest), \(row.id), \(now)) ON CONFLICT DO NOTHING
            """
        )
        guard isNew == 1 else { throw KeyTaken() }
        return .row(row)
    }

    private func insert(_ signIn: ToldSignIn, at time: Timestamp) throws -> Int64 {
        var values: [(column: String, value: ColumnValue)] = [
            ("client_id", signIn.clientID.columnValue), ("user_id", signIn.userID.columnValue), ("granted_at", time.columnValue),
        ]
        switch signIn.proof {
        case .code(let code, let redirectURI, let nonce):
            values += [
                ("authorization_code", code.reveal.columnValue), ("redirect_uri", redirectURI.columnValue), ("nonce", nonce.columnValue),
            ]
        case .refreshToken(let token): values.append(("refresh_token", token.reveal.columnValue))
        case nil: break
        }
        if let address = signIn.address {
            values += [("email", address.text.columnValue), ("email_is_private", address.isPrivate.map { $0 ? 1 : 0 }.columnValue)]
        }
        let columns = values.map(\.column).joined(separator: ", ")
        return try insert("grant_queue (\(sql: columns)) VALUES (\(values: values.map(\.value)))")
    }

    fileprivate func signInOutcome(_ id: Int64) throws -> SignInOutcome? {
        guard
            let row = try fetchOne(
                """
                SELECT o.client_id, o.user_id, o.outcome, o.reason, o.signed_in_at, o.settled_at, o.real_user_status, app.name,
                       o.granted_at
                  FROM grant_outcome o LEFT JOIN client ON client.client_id = o.client_id LEFT JOIN app ON app.id = client.app
                 WHERE o.id = \(id)
                """
            )
        else { return nil }
        let userID = row.text(at: 1)
        var user: UserState?
        if let userID, let app = row.text(at: 7) { user = try userState(of: userID, in: app) }
        let isRejected = row.text(at: 2) == GrantLogOutcome.rejected.rawValue
        let refused = try isRejected ? fetchOne("SELECT detail FROM grant_log WHERE grant_id = \(id)") : nil
        return SignInOutcome(
            row: RowReference(id: id, time: row.time(at: 8) ?? .earliest),
            clientID: row[0],
            userID: userID,
            outcome: row[2],
            reason: row[3],
            detail: refused?.text(at: 0),
            signedInAt: row[4],
            settledAt: row[5],
            realUserStatus: row[6],
            user: user
        )
    }

    fileprivate func userState(of userID: String, in app: String) throws -> UserState? {
        let states: [UserState] = try fetchValues(
            """
            SELECT app, user_id, state, reason, changed_at, verified_at, email,
                   email_is_private AS is_private_email, email_forwarding
              FROM user_state WHERE user_id = \(userID) AND app = \(app)
            """
        )
        return states.first
    }
}
