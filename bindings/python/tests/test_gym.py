# SPDX-License-Identifier: Apache-2.0 OR MIT
"""The Gymnasium environment."""
import unittest

from support import needs


@needs("gymnasium", "numpy")
class Environment(unittest.TestCase):
    def make(self, **options):
        from alcc.gym import Env

        return Env(link="12mbit", duration="5s", step="20ms", **options)

    def test_it_is_what_gymnasium_wants(self):
        from gymnasium.utils.env_checker import check_env

        check_env(self.make(), skip_render_check=True)

    def test_an_episode_lasts_the_window_and_is_the_same_with_the_same_seed(self):
        def episode(seed):
            env = self.make(flow=["cubic@1s"], loss="1%")
            seen = [env.reset(seed=seed)[0].tolist()]
            over = False
            while not over:
                observation, reward, ended, over, _ = env.step([0.1 if len(seen) % 20 < 10 else -0.1])
                self.assertTrue(env.observation_space.contains(observation))
                self.assertFalse(ended)
                seen.append(observation.tolist() + [reward])
            return seen

        first = episode(3)
        # 5 s in steps of 20 ms, after the first step, which begins the window.
        self.assertAlmostEqual(len(first), 250, delta=3)
        self.assertEqual(first, episode(3))
        self.assertNotEqual(first, episode(4))

    def episode(self, env, **reset):
        seen = env.reset(**reset)[0].tolist()
        over = False
        while not over:
            observation, _, _, over, _ = env.step([0.1])
            seen += observation.tolist()
        return seen

    def test_each_episode_is_another_one_unless_it_has_a_seed(self):
        def three(seed):
            env = self.make(loss="5%")
            return [self.episode(env, seed=seed), self.episode(env), self.episode(env)]

        first = three(5)
        self.assertEqual(len({tuple(episode) for episode in first}), 3)
        self.assertEqual(first, three(5))
        # Without any seed environments differ.
        self.assertNotEqual(self.episode(self.make(loss="5%")), self.episode(self.make(loss="5%")))

    def test_copies_in_a_vector_differ_and_make_finds_it(self):
        import gymnasium
        import alcc.gym  # noqa: F401

        arguments = {"link": "lte", "loss": "5%", "duration": "5s"}
        env = gymnasium.make("alcc/Flow-v0", **arguments)
        self.assertEqual(env.reset(seed=1)[0].shape, (6,))
        vector = gymnasium.make_vec("alcc/Flow-v0", num_envs=3, vectorization_mode="sync", **arguments)
        vector.reset()
        for _ in range(100):
            seen = vector.step([[0.1]] * 3)[0]
        self.assertEqual(len({tuple(one) for one in seen.tolist()}), 3)
        vector.close()

    def test_a_reset_that_is_refused_changes_nothing(self):
        import alcc

        def episodes(options):
            env = self.make(loss="5%", seed=3)
            for wrong in options:
                with self.assertRaises(alcc.ScenarioError):
                    env.reset(options=wrong)
            return [self.episode(env), self.episode(env)]

        nonsense = [{"link": "empty"}, {"nosuch": 1}, {"step": "0s"}, {"loss": float("nan")}, {"seed": 4}, [5], {1: 2}]
        self.assertEqual(episodes(nonsense), episodes([]))

    def test_options_of_a_reset_vary_the_path_of_that_episode(self):
        import alcc

        env = self.make()

        def most(**reset):
            seen = self.episode(env, seed=1, **reset)
            return max(seen[::6])

        self.assertLess(most(), 12.1)
        self.assertGreater(most(options={"link": "48mbit", "rtt": "20ms"}), 30)
        self.assertLess(most(), 12.1)

        def lost(**options):
            env.reset(seed=1, options=options)
            # 80 segments, of which the path holds 40.
            return sum(env.step([power])[0][3] for power in [0.5] * 6 + [0.0] * 50)

        self.assertGreater(lost(queue="droptail:packets=10"), 0)
        self.assertEqual(lost(), 0)
        for wrong, words in [
            ({"lnik": "3mbit"}, "did you mean link"),
            ([1], "options: found .1., expected a dictionary"),
            ({1: 2}, "options: found .1: 2., expected a dictionary"),
            ({"seed": 3}, "options: seed stays"),
            ({"step": "0ms"}, "step: "),
        ]:
            with self.subTest(words), self.assertRaisesRegex(alcc.ScenarioError, words):
                env.reset(options=wrong)

    def test_the_sender_sees_a_loss_a_round_trip_later_than_the_oracle(self):
        def first_loss(oracle):
            from alcc.gym import Env

            env = Env(
                link="12mbit", rtt="400ms", duration="8s", step="20ms", oracle=oracle, loss="0",
                steps="steps.csv",
            )
            env.reset(seed=1)
            over = False
            while not over:
                observation, _, _, over, _ = env.step([0.0])
                if observation[3] > 0:
                    return env.simulation.now_s
            return None

        import os
        import tempfile

        with tempfile.TemporaryDirectory() as folder:
            here = os.getcwd()
            os.chdir(folder)
            try:
                with open("steps.csv", "w") as file:
                    file.write("seconds,loss,loss_up\n0,0,0\n5,1,0\n5.4,0,0\n")
                oracle, sender = first_loss(True), first_loss(False)
            finally:
                os.chdir(here)
        # A later packet has to come back, or a timeout to pass.
        self.assertLess(oracle, 5.5)
        self.assertGreater(sender, oracle + 0.2)

    def test_changes_of_a_link_are_part_of_it(self):
        from alcc.gym import Env

        env = Env(link={"rate": "12mbit", "step": "2s:rate=4mbit"}, duration="5s", step="20ms")
        env.reset(seed=1)
        rates, over = [], False
        while not over:
            observation, _, _, over, _ = env.step([0.1])
            rates.append((env.simulation.now_s, observation[0]))
        self.assertGreater(max(rate for now, rate in rates if now < 2), 10)
        self.assertLess(max(rate for now, rate in rates if now > 4), 5.5)

    def test_the_sender_sees_throughput_a_round_trip_later_than_the_oracle(self):
        from alcc.gym import Env

        def first(oracle):
            env = Env(link="12mbit", rtt="400ms", duration="8s", step="20ms", oracle=oracle)
            seen = env.reset(seed=1)[0]
            while seen[0] == 0:
                seen = env.step([0.0])[0]
            return env.simulation.now_s

        self.assertAlmostEqual(first(False) - first(True), 0.4, delta=0.25)

    def test_the_action_moves_the_window_within_its_bounds(self):
        env = self.make()
        env.reset(seed=1)
        before = env.step([0.0])[0][4]
        after = env.step([1.0])[0][4]
        self.assertAlmostEqual(after, 2 * before, places=4)
        for _ in range(40):
            least = env.step([-1.0])[0][4]
        self.assertEqual(least, 1.0)

    def test_a_reward_of_ones_own(self):
        env = self.make(reward=lambda seen: seen["throughput_mbps"])
        env.reset(seed=1)
        for _ in range(50):
            observation, reward, *_ = env.step([0.2])
        self.assertAlmostEqual(reward, float(observation[0]), places=4)
        self.assertGreater(reward, 10.0)

    def test_a_reward_that_is_none_says_what_and_where(self):
        import alcc

        def broken(seen):
            raise KeyError("rtt")

        def leaves(seen):
            raise SystemExit(3)

        for reward, words, cause in [
            (lambda seen: None, "it answered None: expected a finite number", None),
            (lambda seen: float("nan"), "it answered nan", None),
            (lambda seen: float("-inf"), "it answered -inf", None),
            (lambda seen: "1.5", "it answered '1.5'", None),
            (lambda seen: [1.0], r"it answered \[1.0\]", None),
            (lambda seen: 10**5000, "it answered an object", None),
            (lambda: 1.0, "it raised TypeError: .* takes 0 positional", TypeError),
            (broken, "reward .*broken at .*it raised KeyError: 'rtt'", KeyError),
            (leaves, "it raised SystemExit: 3", SystemExit),
        ]:
            env = self.make(reward=reward)
            env.reset(seed=1)
            with self.subTest(words), self.assertRaisesRegex(alcc.RewardError, words) as caught:
                env.step([0.0])
            self.assertRegex(str(caught.exception), r"^reward .* at 0\.\d+s: ")
            self.assertTrue(str(caught.exception).isprintable())
            if cause:
                self.assertIsInstance(caught.exception.__cause__, cause)
        env = self.make(reward=lambda seen: seen["loss"] == 0.0)
        env.reset(seed=1)
        self.assertEqual(env.step([0.0])[1], 1.0)

    def test_a_seed_that_cannot_be_is_not_kept(self):
        import alcc
        from gymnasium.error import Error

        env = self.make()
        with self.assertRaisesRegex(alcc.ScenarioError, "^seed: found a whole number"):
            env.reset(seed=10**400)
        for wrong in (-1, "one"):
            with self.assertRaises(Error):
                env.reset(seed=wrong)
        env.reset()
        env.step([0.0])

    def test_wrong_arguments_are_found_at_once(self):
        import alcc

        with self.assertRaisesRegex(alcc.ScenarioError, "did you mean link"):
            self.make(lnik="3mbit")
        for wrong, words in [
            ({"step": 20}, "step: '20' is not a length of time: write a number and ns"),
            ({"flow": 5}, "flow: found int, expected the other flows"),
            ({"flow": {}}, "flow: found dict, expected the other flows"),
            ({"flow": None}, "flow: found NoneType, expected the other flows"),
            ({"flow": [object()]}, "flow: found a value of type object, expected a string .* or a class"),
            ({"step": "0ms"}, "step: "),
            ({"step": "-1ms"}, "step: "),
            ({"step": "soon"}, "step: "),
            ({"reward": 5}, "reward: found int, expected a function"),
            ({"seed": 10**400}, "seed: found a whole number"),
            ({"flow": ["cubik"]}, "did you mean cubic"),
        ]:
            with self.subTest(words), self.assertRaisesRegex(alcc.ScenarioError, words):
                from alcc.gym import Env

                Env(**dict({"link": "12mbit", "duration": "5s"}, **wrong))

    def test_steps_before_the_first_reset_and_after_the_end_ask_for_one(self):
        from gymnasium.error import ResetNeeded

        env = self.make()
        with self.assertRaisesRegex(ResetNeeded, "call reset first"):
            env.step([0.0])
        env.reset(seed=1)
        while not env.step([0.0])[3]:
            pass
        for _ in range(2):
            with self.assertRaisesRegex(ResetNeeded, "the episode is over: call reset first"):
                env.step([0.0])
        env.reset(seed=1)
        self.assertFalse(env.step([0.0])[3])

    def test_what_is_no_action_changes_nothing(self):
        import numpy as np
        from gymnasium.error import InvalidAction

        env = self.make()
        env.reset(seed=1)
        before = env.simulation.now_s
        for wrong in (
            None, [], "x", [None], 0.5, {}, [float("nan")], np.array([]), ["x" * 9999], ["0.5"], [10**5000],
            [0.1, 0.2], np.zeros((1, 2)), {0: 0.1},
        ):
            with self.subTest(wrong), self.assertRaisesRegex(InvalidAction, "one number from -1 to 1") as caught:
                env.step(wrong)
            self.assertLess(len(str(caught.exception)), 200)
        with self.assertRaisesRegex(InvalidAction, "one number"):
            env.step([10**400])
        self.assertEqual(env.simulation.now_s, before)
        window = env.step([0.0])[0][4]
        for beyond, factor in ((1e9, 2), (float("inf"), 2), (-7.0, 0.5)):
            now = env.step([beyond])[0][4]
            self.assertAlmostEqual(now, factor * window, places=4)
            window = now


if __name__ == "__main__":
    unittest.main()
