// An OpenID provider for tests: `node provider.mjs PORT FILE`. FILE holds its private keys (a JSON Web
// Key Set), which are made if it does not exist. It prints a line when it listens.
//
// Anybody signs in with any name. Two clients differ in the algorithm that signs their tokens.

import * as crypto from 'node:crypto';
import * as fs from 'node:fs';
import Provider from 'oidc-provider';

const [port, file] = process.argv.slice(2);

function makeKeys() {
  const made = (type, options, algorithm) => ({
    ...crypto.generateKeyPairSync(type, options).privateKey.export({ format: 'jwk' }),
    kid: crypto.randomBytes(8).toString('hex'),
    alg: algorithm,
    use: 'sig',
  });
  return {
    keys: [made('rsa', { modulusLength: 2048 }, 'RS256'), made('ec', { namedCurve: 'P-256' }, 'ES256')],
  };
}

if (!fs.existsSync(file)) {
  fs.writeFileSync(file, JSON.stringify(makeKeys()), { mode: 0o600 });
}

const client = (algorithm) => ({
  client_id: `archipel-${algorithm}`,
  client_secret: 'not a secret',
  redirect_uris: ['http://127.0.0.1:9/back'],
  id_token_signed_response_alg: algorithm,
});

const issuer = `http://127.0.0.1:${port}`;
const provider = new Provider(issuer, {
  clients: [client('RS256'), client('ES256')],
  jwks: JSON.parse(fs.readFileSync(file)),
  cookies: { keys: ['not a secret'] },
  pkce: { required: () => false },
  // Longer than any test, also one that moves the clock of the nodes.
  ttl: { IdToken: 7 * 24 * 3600 },
});
provider.listen(Number(port), '127.0.0.1', () => console.log(issuer));
