// The kernels for node, for comparison: the argument is the name. Prints the checksum and the CPU
// time in microseconds. Numbers are doubles; arrays of doubles and of bytes are typed.
const sum = () => {
    const a = new Float64Array(4096);
    for (let i = 0; i < 4096; i++) a[i] = (i * 7) % 13;
    const kernel = (a) => { let sum = 0; for (let i = 0; i < 4096; i++) sum += a[i]; return sum; };
    let total = 0;
    for (let k = 0; k < 20000; k++) total += kernel(a) % 1000;
    return total;
};
const hash = () => {
    const a = new Float64Array(4096);
    for (let i = 0; i < 4096; i++) a[i] = i % 251;
    const kernel = (a, n) => {
        let h = 2166136261;
        for (let i = 0; i < n; i++) h = Math.imul(h ^ a[i], 16777619) >>> 0;
        return h;
    };
    let total = 0;
    for (let k = 0; k < 10000; k++) { a[k % 4096] = k % 255; total = (total ^ kernel(a, 4096)) >>> 0; }
    return total;
};
const matmul = () => {
    const n = 96, a = new Float64Array(n * n), b = new Float64Array(n * n), c = new Float64Array(n * n);
    for (let i = 0; i < n * n; i++) { a[i] = i % 17; b[i] = i % 19; }
    const kernel = () => {
        for (let i = 0; i < n; i++) for (let j = 0; j < n; j++) {
            let sum = 0;
            for (let k = 0; k < n; k++) sum += a[i * n + k] * b[k * n + j];
            c[i * n + j] = sum;
        }
    };
    for (let k = 0; k < 40; k++) kernel();
    return c.reduce((x, y) => x + y, 0);
};
const sieve = () => {
    const marks = new Uint8Array(65536);
    const kernel = (marks, n) => {
        for (let i = 0; i < n; i++) marks[i] = 1;
        for (let i = 2; i * i < n; i++) if (marks[i] === 1) for (let k = i * i; k < n; k += i) marks[k] = 0;
        let count = 0;
        for (let i = 2; i < n; i++) if (marks[i] === 1) count++;
        return count;
    };
    let total = 0;
    for (let k = 0; k < 200; k++) total += kernel(marks, 65536);
    return total;
};
const collatz = () => {
    const kernel = (n) => { let steps = 0; while (n !== 1) { n = n % 2 === 0 ? n / 2 : 3 * n + 1; steps++; } return steps; };
    let total = 0;
    for (let i = 1; i < 300000; i++) total += kernel(i);
    return total;
};
const fib = () => { const f = (n) => n < 2 ? n : f(n - 1) + f(n - 2); return f(32); };
const nbody = () => {
    const n = 5, x = new Float64Array(15), v = new Float64Array(15), m = new Float64Array(5);
    for (let i = 0; i < 15; i++) { x[i] = (i * 7) % 11 + 0.5; v[i] = ((i * 5) % 13) * 0.01; }
    for (let i = 0; i < n; i++) m[i] = (i + 1) * 0.1;
    const advance = (dt) => {
        for (let i = 0; i < n; i++) for (let j = i + 1; j < n; j++) {
            const dx = x[3 * i] - x[3 * j], dy = x[3 * i + 1] - x[3 * j + 1], dz = x[3 * i + 2] - x[3 * j + 2];
            const d2 = dx * dx + dy * dy + dz * dz, mag = dt / (d2 * Math.sqrt(d2));
            v[3 * i] -= dx * m[j] * mag; v[3 * i + 1] -= dy * m[j] * mag; v[3 * i + 2] -= dz * m[j] * mag;
            v[3 * j] += dx * m[i] * mag; v[3 * j + 1] += dy * m[i] * mag; v[3 * j + 2] += dz * m[i] * mag;
        }
        for (let i = 0; i < 3 * n; i++) x[i] += dt * v[i];
    };
    for (let k = 0; k < 300000; k++) advance(0.001);
    return Math.trunc(x.reduce((a, b) => a + b, 0) * 1000000);
};
const start = process.cpuUsage();
const value = { sum, hash, matmul, sieve, collatz, fib, nbody }[process.argv[2]]();
const used = process.cpuUsage(start);
console.log(`${value} ${used.user + used.system}`);
