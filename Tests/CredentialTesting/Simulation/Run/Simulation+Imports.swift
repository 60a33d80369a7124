// SPDX-License-Identifier: Apache-2.0
// SPDX-FileCopyrightText: The siwatch authors

import CredentialCore
import GRDB

/// Operators import files of users. Some lines are wrong: the time, the token or the client.
///
/// The command is a process of its own. It goes from batch to batch, and may die in between. Meanwhile all else goes on.
extension Simulation {
    /// A file, as far as its import has come.
    struct ImportedFile {
        var name: String
        var batches: [[ToldSignIn]]
        /// The next batch.
        var next = 0
        /// The key of the batch before, if the same process has told it.
        var last: String?

        var isOver: Bool { next == batches.count }
    }

    /// An operator begins an import, or an import goes on, or ends early, or somebody repeats it.
    mutating func importFile() async throws {
        guard let place = files.indices.first(where: { !files[$0].isOver }) else {
            if files.isEmpty || (files.count < 3 || !ended.isEmpty) && chance(600) {
                files.append(writeFile())
                // Some users have left before anybody imports them.
                let line = files[files.count - 1].batches.joined().randomElement(using: &generator)
                if plan.revocations > 0, chance(400), let line, let user = line.userID {
                    let credential = CredentialID(clientID: line.clientID, userID: user)
                    hasActed(user)
                    return agenda.append((truth, .request(ReferenceModel.RequestRow(credential: credential, requestedAt: truth))))
                }
                return try await tellBatch(of: files.count - 1)
            }
            let place = Int.random(in: files.indices, using: &generator)
            (files[place].next, files[place].last) = (0, nil)
            return try await tellBatch(of: place)
        }
        if files[place].next > 0, chance(150) {
            // The next process begins with the first line again.
            (files[place].next, files[place].last) = (0, nil)
            return world.note("\(files[place].name) is cut short", counting: .importCutShort)
        }
        try await tellBatch(of: place)
    }

    private mutating func writeFile() -> ImportedFile {
        var file = ImportedFile(name: "import\(files.count)", batches: [])
        for _ in 1...Int.random(in: 1...3, using: &generator) {
            var batch: [ToldSignIn] = []
            for _ in 1...Int.random(in: 1...4, using: &generator) { batch.append(writeLine()) }
            file.batches.append(batch)
        }
        return file
    }

    /// People whose sign-in has ended, at one of their app's clients, for a rejected token. A sign-in at another client would hide the end.
    var ended: [Person] {
        let model = world.with(\.model)
        return people.filter { !isCanary($0.user) && model.hasEndedAtOneClient($0.user, of: $0.app.clientIDs) }
    }

    /// A line about a user from before siwatch, or about a person that siwatch may know.
    private mutating func writeLine() -> ToldSignIn {
        let (known, ended) = (people.filter { !isCanary($0.user) }, ended)
        let acquaintance = chance(400) ? (ended.randomElement(using: &generator) ?? known.randomElement(using: &generator)) : nil
        let person = if let acquaintance { acquaintance } else { meetUser() }
        let isNew = ended.contains { $0.user == person.user }
        let told = isNew ? world.with { $0.model.credentials(of: person.user).map(\.clientID) } : []
        let clients = person.app.clientIDs.filter { $0 != dropped?.clientID && !told.contains($0) }
        let client = clients.randomElement(using: &generator) ?? person.app.clientIDs[0]
        let credential = CredentialID(clientID: client, userID: person.user)
        let (signIn, others) = world.with { state in (state.apple.newestSignIn(of: credential), state.apple.tokens(of: person.user)) }
        // Without a sign-in there, the file names a wrong client.
        var at = signIn?.at ?? truth.advanced(by: .seconds(-Int.random(in: 60...2_000_000, using: &generator))).second
        var token = signIn?.isByCode ?? true ? others.randomElement(using: &generator) : signIn?.token
        switch Int.random(in: 0..<100, using: &generator) {
        case 0..<20: token = nil
        case 20..<30: token = others.randomElement(using: &generator)
        case 30..<36:
            let other = people.randomElement(using: &generator)!.user
            token = world.with { $0.apple.tokens(of: other) }.randomElement(using: &generator)
        case 36..<40: token = "cut off \(person.user)"
        default: break
        }
        if chance(250) {
            let wrong = at.advanced(by: .seconds(Int.random(in: -90_000...90_000, using: &generator)))
            at = min(wrong, truth.second)
            world.with { _ = $0.misdated.insert(person.user) }
        }
        return ToldSignIn(
            clientID: client,
            userID: person.user,
            proof: token.map { .refreshToken(Secret($0)) },
            address: chance(300) ? EmailAddress(person.address) : nil,
            signedInAt: at
        )
    }

    private mutating func meetUser() -> Person {
        let app = plan.apps.randomElement(using: &generator)!
        let user = "past\(people.count)"
        people.append(Person(user: user, app: app, bringsToken: true, lastActedAt: truth, address: "\(user)@example.com"))
        let credential = CredentialID(clientID: app.clientIDs.randomElement(using: &generator)!, userID: user)
        let ago = Duration.seconds(Int.random(in: 60...4_000_000, using: &generator))
        let (hasToken, hasEnded) = (chance(850), chance(150))
        world.with { state in
            _ = state.apple.signIn(credential, at: state.truth.advanced(by: .zero - ago).second, withToken: hasToken)
            if hasEnded { state.apple.changePassword(of: user, at: state.truth) }
        }
        return people[people.count - 1]
    }

    private mutating func tellBatch(of place: Int) async throws {
        let file = files[place]
        let signIns = file.batches[file.next]
        // The command takes lines of configured clients only.
        if signIns.contains(where: { $0.clientID == dropped?.clientID }) { return }
        let batch = ImportBatch(importID: file.name, key: "batch \(file.next)", after: file.last, signIns: signIns)
        let answer = try await process.store.append(batch, at: now)
        // The operator does not repeat a refused one at once.
        (files[place].next, files[place].last) = answer == nil ? (file.batches.count, nil) : (file.next + 1, batch.key)
        let rows = if let answer, !answer.isKnown { try queued(answer.rows) } else { [] as [QueuedRow] }
        world.with { $0.report($0.took(batch, answer, rows)) }
    }

    typealias QueuedRow = (id: Int64, row: ReferenceModel.GrantRow)

    /// The rows of an import, as they stand in the queue.
    private func queued(_ ids: [Int64]) throws -> [QueuedRow] {
        var queued: [QueuedRow] = []
        for id in ids.sorted() {
            let columns = "client_id, user_id, granted_at, refresh_token, email"
            for row in try database.rows("SELECT \(columns) FROM grant_queue WHERE id = ?", [id]) {
                let credential = CredentialID(clientID: row[0], userID: row[1])
                let at = Timestamp(milliseconds: row[2])
                let grant = ReferenceModel.GrantRow(credential: credential, grantedAt: at, token: row[3], address: row[4])
                queued.append((id: id, row: grant))
            }
        }
        return queued
    }
}

extension SimulatedWorld.State {
    /// Tells the model the answer to a batch of an import, and the rows that it has brought.
    ///
    /// - Returns: the violation, if the answer is wrong.
    fileprivate mutating func took(_ batch: ImportBatch, _ answer: ToldBatch?, _ rows: [Simulation.QueuedRow]) -> Violation? {
        let expected = model.expected(batch)
        let found: ReferenceModel.ExpectedBatch = answer.map { $0.isKnown ? .known : .told } ?? .refused
        note("\(batch.importID) tells \(batch.key): \(found)")
        guard found == expected else {
            return Violation(.nothingIsLost, "\(batch.key) of \(batch.importID) is \(found), by the rules \(expected)")
        }
        switch found {
        case .refused: count(.importRefused)
        case .known:
            count(.importRepeated)
            if let row = answer?.rows.first(where: { model.toldRows[$0]?.isUndone ?? true }) {
                return Violation(.nothingIsLost, "\(batch.importID) leaves out lines whose row \(row) an undo has taken")
            }
        case .told:
            count(.fileImported)
            let told = rows.map { queued -> [String] in
                let row = queued.row
                return [row.credential.name, "\(row.grantedAt.milliseconds)", row.token ?? "", row.address ?? ""]
            }
            let written = batch.signIns.map { signIn -> [String] in
                var token = ""
                if case .refreshToken(let secret)? = signIn.proof { token = secret.reveal }
                let name = CredentialID(clientID: signIn.clientID, userID: signIn.userID ?? "").name
                return [name, "\(signIn.signedInAt?.milliseconds ?? 0)", token, signIn.address?.text ?? ""]
            }
            guard told == written else {
                return Violation(.nothingIsLost, "\(batch.importID) has written \(written), and \(told) stand in the queue")
            }
            model.told(batch, rows, at: now)
            for row in rows { note("grant \(row.id) is imported, of \(row.row.credential.name)") }
        }
        return nil
    }
}
