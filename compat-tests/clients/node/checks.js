// The Node client node-zookeeper-client: prints "ok NAME" for each check that holds, "failed NAME:
// why" for one that does not. Arguments: HOST:PORT of a server that grants no session more than
// SESSION_MS, HOST:PORT of a proxy before it, PORT of the proxy's control. NODE_PATH leads to the
// client.
'use strict';

const assert = require('assert');
const net = require('net');
const zookeeper = require('node-zookeeper-client');

const { ACL, Id, Permission, CreateMode, Event, Exception, State } = zookeeper;
const SESSION_MS = 4000;
const DEADLINE_MS = 30000;
const BURST = 1000;
const [server, proxy, control] = process.argv.slice(2);

const bytes = (text) => Buffer.from(text, 'utf8');
const number = (long) => long.readBigInt64BE(0);

/** A method of the client as a promise: of its one value, or of a list of them. */
function call(client, method, ...words) {
  return new Promise((resolve, reject) => {
    client[method](...words, (error, ...values) => {
      if (error) reject(error);
      else resolve(values.length > 1 ? values : values[0]);
    });
  });
}

async function gives(code, promise) {
  let error = null;
  await promise.catch((caught) => { error = caught; });
  assert.ok(error, `no error instead of ${code}`);
  assert.strictEqual(error.code, code, String(error));
}

function within(promise, what) {
  let timer;
  const late = new Promise((_, reject) => {
    timer = setTimeout(() => reject(new Error(`waited in vain: ${what}`)), DEADLINE_MS);
  });
  return Promise.race([promise, late]).finally(() => clearTimeout(timer));
}

/** Things that come one after the other, and whoever waits for the next. */
class Stream {
  constructor() {
    this.waiting = [];
    this.come = [];
    this.push = (thing) => {
      if (this.waiting.length > 0) this.waiting.shift()(thing);
      else this.come.push(thing);
    };
  }

  next(what) {
    if (this.come.length > 0) return Promise.resolve(this.come.shift());
    return within(new Promise((resolve) => this.waiting.push(resolve)), what);
  }

  async until(thing) {
    while (await this.next(thing) !== thing);
  }

  async event(type, path) {
    const event = await this.next(`event ${type} ${path}`);
    assert.deepStrictEqual([event.getType(), event.getPath()], [type, path]);
  }

  empty() {
    assert.deepStrictEqual(this.come.map(String), []);
  }
}

async function open(address) {
  const client = zookeeper.createClient(address, { sessionTimeout: SESSION_MS * 10, spinDelay: 50 });
  client.states = new Stream();
  client.on('state', client.states.push);
  client.connect();
  await client.states.until(State.SYNC_CONNECTED);
  return client;
}

async function close(client) {
  client.close();
  await client.states.until(State.DISCONNECTED);
}

function order(word) {
  return within(new Promise((resolve, reject) => {
    const socket = net.connect(Number(control), '127.0.0.1', () => socket.write(`${word}\n`));
    socket.once('data', (answer) => {
      socket.destroy();
      if (String(answer) === 'done\n') resolve();
      else reject(new Error(String(answer)));
    });
    socket.on('error', reject);
  }), word);
}

async function gone(client, path) {
  const late = Date.now() + DEADLINE_MS;
  while (await call(client, 'exists', path)) {
    assert.ok(Date.now() < late, `${path} is still there`);
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
}

const checks = {
  async session(client) {
    assert.notStrictEqual(number(client.getSessionId()), 0n);
    assert.strictEqual(client.getSessionTimeout(), SESSION_MS);
    assert.strictEqual(client.getState(), State.SYNC_CONNECTED);
    const other = await open(server);
    assert.notStrictEqual(number(other.getSessionId()), number(client.getSessionId()));
    await close(other);
  },

  async stats(client) {
    assert.strictEqual(await call(client, 'create', '/stat', bytes('abc')), '/stat');
    const [data, made] = await call(client, 'getData', '/stat');
    assert.strictEqual(String(data), 'abc');
    assert.ok(number(made.czxid) > 0n && number(made.czxid) === number(made.mzxid));
    assert.ok(number(made.czxid) === number(made.pzxid));
    assert.ok(number(made.ctime) === number(made.mtime) && number(made.ctime) > 1600000000000n);
    assert.deepStrictEqual([made.version, made.cversion, made.aversion], [0, 0, 0]);
    assert.strictEqual(number(made.ephemeralOwner), 0n);
    assert.deepStrictEqual([made.dataLength, made.numChildren], [3, 0]);
    const changed = await call(client, 'setData', '/stat', bytes('fours'), 0);
    assert.deepStrictEqual([changed.version, changed.dataLength], [1, 5]);
    assert.ok(number(changed.mzxid) > number(made.mzxid));
    await call(client, 'create', '/stat/a');
    await call(client, 'create', '/stat/b');
    await call(client, 'remove', '/stat/a', -1);
    const seen = await call(client, 'exists', '/stat');
    assert.deepStrictEqual([seen.cversion, seen.numChildren, seen.version], [3, 1, 1]);
    assert.ok(number(seen.pzxid) > number(changed.mzxid));
  },

  async versions(client) {
    await call(client, 'create', '/version', bytes('0'));
    await call(client, 'setData', '/version', bytes('1'), 0);
    await gives(Exception.BAD_VERSION, call(client, 'setData', '/version', bytes('2'), 0));
    await gives(Exception.BAD_VERSION, call(client, 'remove', '/version', 0));
    assert.strictEqual(String((await call(client, 'getData', '/version'))[0]), '1');
    await call(client, 'remove', '/version', 1);
    assert.strictEqual(await call(client, 'exists', '/version'), null);
  },

  async ephemerals(client) {
    const other = await open(server);
    await call(other, 'create', '/mine', CreateMode.EPHEMERAL);
    const stat = await call(client, 'exists', '/mine');
    assert.strictEqual(number(stat.ephemeralOwner), number(other.getSessionId()));
    await gives(Exception.NO_CHILDREN_FOR_EPHEMERALS, call(client, 'create', '/mine/child'));
    await close(other);
    await gone(client, '/mine');
  },

  async sequence(client) {
    await call(client, 'create', '/queue');
    const modes = [CreateMode.PERSISTENT_SEQUENTIAL, CreateMode.EPHEMERAL_SEQUENTIAL];
    for (const [i, mode] of modes.entries()) {
      assert.strictEqual(await call(client, 'create', '/queue/n-', mode), `/queue/n-000000000${i}`);
    }
  },

  async errors(client) {
    await call(client, 'create', '/error');
    await call(client, 'create', '/error/child');
    await gives(Exception.NODE_EXISTS, call(client, 'create', '/error'));
    await gives(Exception.NO_NODE, call(client, 'create', '/nothing/child'));
    await gives(Exception.NOT_EMPTY, call(client, 'remove', '/error', -1));
    await gives(Exception.NO_NODE, call(client, 'remove', '/nothing', -1));
    await gives(Exception.NO_NODE, call(client, 'getData', '/nothing'));
    await gives(Exception.NO_NODE, call(client, 'getChildren', '/nothing'));
    await gives(Exception.NO_NODE, call(client, 'setData', '/nothing', bytes(''), -1));
    await gives(Exception.NO_NODE, call(client, 'getACL', '/nothing'));
    await gives(Exception.BAD_ARGUMENTS, call(client, 'remove', '/', -1));
  },

  async children(client) {
    await call(client, 'mkdirp', '/list/a');
    await call(client, 'create', '/list/b');
    await call(client, 'create', '/list/c');
    const [names, stat] = await call(client, 'getChildren', '/list');
    assert.deepStrictEqual(names.sort(), ['a', 'b', 'c']);
    assert.deepStrictEqual([stat.numChildren, stat.cversion], [3, 3]);
    const paths = await call(client, 'listSubTreeBFS', '/list');
    assert.deepStrictEqual(paths.sort(), ['/list', '/list/a', '/list/b', '/list/c']);
    await call(client, 'removeRecursive', '/list');
    assert.strictEqual(await call(client, 'exists', '/list'), null);
  },

  async acls(client) {
    const reader = [new ACL(Permission.READ | Permission.ADMIN, Id.ANYONE_ID_UNSAFE)];
    const nobody = [new ACL(Permission.ALL, new Id('nonsense', 'x'))];
    const far = [new ACL(Permission.ALL, new Id('ip', '10.1.2.3'))];
    await call(client, 'create', '/acl', bytes('x'));
    await gives(Exception.BAD_VERSION, call(client, 'setACL', '/acl', reader, 7));
    await gives(Exception.INVALID_ACL, call(client, 'setACL', '/acl', nobody, -1));
    assert.strictEqual((await call(client, 'setACL', '/acl', reader, 0)).aversion, 1);
    const [seen] = await call(client, 'getACL', '/acl');
    assert.deepStrictEqual(seen.map((acl) => [acl.permission, acl.id.scheme, acl.id.id]),
      [[Permission.READ | Permission.ADMIN, 'world', 'anyone']]);
    await gives(Exception.NO_AUTH, call(client, 'setData', '/acl', bytes('y')));
    await gives(Exception.NO_AUTH, call(client, 'create', '/acl/child'));
    await call(client, 'setACL', '/acl', far, 1);
    await gives(Exception.NO_AUTH, call(client, 'getData', '/acl'));
  },

  async auth(client) {
    const other = await open(proxy);
    await gives(Exception.INVALID_ACL, call(other, 'create', '/auth', ACL.CREATOR_ALL_ACL));
    other.addAuthInfo('digest', bytes('user:user'));
    await call(other, 'create', '/auth', bytes('x'), ACL.CREATOR_ALL_ACL);
    const [seen] = await call(other, 'getACL', '/auth');
    assert.deepStrictEqual(seen.map((acl) => [acl.permission, acl.id.scheme, acl.id.id]),
      [[Permission.ALL, 'digest', 'user:F46PeTVYeItL6aAyygIVQ9OaaeY=']]);
    await gives(Exception.NO_AUTH, call(client, 'getData', '/auth'));
    // The client says who it is on every new connection.
    await order('cut');
    await other.states.until(State.SYNC_CONNECTED);
    assert.strictEqual(String((await call(other, 'getData', '/auth'))[0]), 'x');
    await close(other);
    const stranger = await open(server);
    stranger.addAuthInfo('nonsense', bytes('x'));
    await stranger.states.until(State.AUTH_FAILED);
  },

  async multi(client) {
    const made = await call(client.transaction()
      .create('/multi', bytes('x'))
      .create('/multi/a-', CreateMode.PERSISTENT_SEQUENTIAL)
      .setData('/multi', bytes('yy'), 0)
      .check('/multi', 1), 'commit');
    assert.deepStrictEqual([made[0].path, made[1].path], ['/multi', '/multi/a-0000000000']);
    assert.deepStrictEqual([made[2].stat.version, made[2].stat.dataLength], [1, 2]);
    const results = await new Promise((resolve) => {
      client.transaction()
        .remove('/multi/a-0000000000')
        .check('/multi', 9)
        .setData('/multi', bytes('z'))
        .commit((error, list) => resolve([error && error.code, list.map((each) => each.err)]));
    });
    assert.deepStrictEqual(results, [Exception.BAD_VERSION,
      [0, Exception.BAD_VERSION, Exception.RUNTIME_INCONSISTENCY]]);
    assert.ok(await call(client, 'exists', '/multi/a-0000000000'));
    assert.strictEqual(String((await call(client, 'getData', '/multi'))[0]), 'yy');
  },

  async watches(client) {
    const seen = new Stream();
    const note = (event) => seen.push(event);
    assert.strictEqual(await call(client, 'exists', '/watch', note), null);
    await call(client, 'create', '/watch');
    await seen.event(Event.NODE_CREATED, '/watch');
    await call(client, 'getData', '/watch', note);
    await call(client, 'setData', '/watch', bytes('1'));
    await seen.event(Event.NODE_DATA_CHANGED, '/watch');
    await call(client, 'setData', '/watch', bytes('2'));
    await call(client, 'getChildren', '/watch', note);
    await call(client, 'create', '/watch/child');
    await seen.event(Event.NODE_CHILDREN_CHANGED, '/watch');
    await call(client, 'exists', '/watch/child', note);
    await call(client, 'remove', '/watch/child');
    await seen.event(Event.NODE_DELETED, '/watch/child');
    seen.empty();
  },

  async 'cut connection'(client) {
    const seen = new Stream();
    const note = (event) => seen.push(event);
    const through = await open(proxy);
    const id = number(through.getSessionId());
    await call(through, 'create', '/cut');
    await call(through, 'create', '/cut/mine', CreateMode.EPHEMERAL);
    await call(client, 'create', '/cut-list');
    await call(through, 'getData', '/cut', note);
    await call(through, 'exists', '/cut-later', note);
    await call(through, 'getChildren', '/cut-list', note);
    await order('hold');
    await through.states.until(State.DISCONNECTED);
    await call(client, 'setData', '/cut', bytes('missed'));
    await order('release');
    await through.states.until(State.SYNC_CONNECTED);
    await seen.event(Event.NODE_DATA_CHANGED, '/cut');
    assert.strictEqual(number(through.getSessionId()), id);
    assert.ok(await call(through, 'exists', '/cut/mine'));
    seen.empty();
    await call(client, 'create', '/cut-later');
    await seen.event(Event.NODE_CREATED, '/cut-later');
    await call(client, 'create', '/cut-list/child');
    await seen.event(Event.NODE_CHILDREN_CHANGED, '/cut-list');
    await close(through);
    await gone(client, '/cut/mine');
  },

  async expiry(client) {
    const through = await open(proxy);
    await call(through, 'create', '/expiring', CreateMode.EPHEMERAL);
    await order('hold');
    assert.ok(await call(client, 'exists', '/expiring'));
    await gone(client, '/expiring');
    await order('release');
    await through.states.until(State.EXPIRED);
  },

  async attach(client) {
    const first = await open(proxy);
    await call(first, 'create', '/attached', CreateMode.EPHEMERAL);
    await order('hold');
    const second = zookeeper.createClient(server, { sessionTimeout: SESSION_MS });
    second.states = new Stream();
    second.on('state', second.states.push);
    first.getSessionId().copy(second.connectionManager.sessionId);
    first.getSessionPassword().copy(second.connectionManager.sessionPassword);
    second.connect();
    await second.states.until(State.SYNC_CONNECTED);
    assert.strictEqual(number(second.getSessionId()), number(first.getSessionId()));
    const stat = await call(second, 'exists', '/attached');
    assert.strictEqual(number(stat.ephemeralOwner), number(second.getSessionId()));
    await close(second);
    await gone(client, '/attached');
    await order('release');
    await first.states.until(State.EXPIRED);
  },

  async unicode(client) {
    await call(client, 'mkdirp', '/größe');
    await call(client, 'create', '/größe/雪-値', bytes('naïve 値 😀'));
    assert.strictEqual(String((await call(client, 'getData', '/größe/雪-値'))[0]), 'naïve 値 😀');
    assert.deepStrictEqual((await call(client, 'getChildren', '/größe'))[0], ['雪-値']);
  },

  async 'big values'(client) {
    const data = Buffer.from(Array.from({ length: 1000000 }, (_, i) => (i * 31) % 251));
    await call(client, 'create', '/big', data);
    const [back, stat] = await call(client, 'getData', '/big');
    assert.ok(data.equals(back));
    assert.strictEqual(stat.dataLength, data.length);
    const other = await open(server);
    const tooBig = call(other, 'setData', '/big', Buffer.alloc(1048576), -1);
    await gives(Exception.CONNECTION_LOSS, tooBig);
    await other.states.until(State.SYNC_CONNECTED);
    await close(other);
    assert.strictEqual((await call(client, 'exists', '/big')).version, 0);
    await call(client, 'remove', '/big', 0);
  },

  async burst(client) {
    const order = [];
    const expected = [];
    await call(client, 'create', '/burst');
    const all = [];
    for (let i = 0; i < BURST; i += 1) {
      all.push(call(client, 'setData', '/burst', bytes(String(i)), i)
        .then((stat) => order.push(`set ${stat.version}`)));
      all.push(call(client, 'getData', '/burst')
        .then(([data]) => order.push(`get ${data}`)));
      expected.push(`set ${i + 1}`, `get ${i}`);
    }
    await Promise.all(all);
    assert.deepStrictEqual(order, expected);
  },
};

async function main() {
  const client = await open(server);
  for (const [name, check] of Object.entries(checks)) {
    try {
      await check(client);
      console.log(`ok ${name}`);
    } catch (error) {
      console.log(`failed ${name}: ${String(error && error.stack).split('\n').slice(0, 6).join(' | ')}`);
      await order('release');
    }
  }
  client.close();
  process.exit(0);
}

main();
