import { expect, test } from 'vitest'
import { call, output, port, says, spawn, useGround } from './ground.ts'

useGround()

/** Connects as soon as there is a name, and tells of nobody there though the name is still one; and of what it reached. */
const insist = `perl -e '
  use Socket; $| = 1; $SIG{PIPE} = "IGNORE"; my $met = 0; print "begun\\n";
  while (! -e "stop") {
    if (my $to = inet_aton("peer.example")) {
      socket(S, PF_INET, SOCK_STREAM, 0);
      if (connect(S, pack_sockaddr_in(7000, $to))) {
        syswrite(S, "GET / HTTP/1.1\\r\\nHost: peer.example:7000\\r\\n\\r\\n");
        if (sysread(S, $b, 1) and !$met) { $met = 1; print "met\\n" }
      } elsif (inet_aton("peer.example")) { print "nobody\\n" }
      close S;
    } elsif ($met) { $met = 0; print "gone\\n" }
    select(undef, undef, undef, 0.001);
  }'`

const times = (text: string, word: string) => text.split(/\r?\n/).filter((line) => line === word).length

test('while a host is granted and taken away, its name is never known without somebody who listens for it', async () => {
  const pins = { 'peer.example:7000': `127.0.0.1:${port}` }
  const id = await spawn(insist, { boundary: 'readwrite', outputs: { mode: 'restricted', pins } })
  await says(id, 'begun')
  for (let round = 1; round <= 8; round++) {
    const request = await call().call('boundary.request', { id, to: 'network', reason: 'now' })
    await call().call('boundary.approve', { id, request: request.id })
    await expect.poll(async () => times(await output(id), 'met'), { timeout: 20_000 }).toBe(round)
    await call().call('boundary.narrow', { id, to: 'readwrite' })
    await expect.poll(async () => times(await output(id), 'gone'), { timeout: 20_000 }).toBe(round)
  }
  expect(times(await output(id), 'nobody')).toBe(0)
  await call().call('dispatch.kill', { id })
})
